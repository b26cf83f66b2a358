# 64-bit Windows with mingw-w64's gcc: gcc-mingw-w64-x86-64 on Debian and Ubuntu, mingw64-gcc on Fedora, mingw-w64-gcc on Arch.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
find_program(CMAKE_C_COMPILER NAMES x86_64-w64-mingw32-gcc x86_64-w64-mingw32-gcc-posix x86_64-w64-mingw32-gcc-win32
             REQUIRED)
find_program(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
set(CMAKE_FIND_ROOT_PATH /usr/x86_64-w64-mingw32 /usr/x86_64-w64-mingw32/sys-root/mingw)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# Under wine, where there is one, ctest and --build-and-test run what was built.
find_program(CLATTN_WINE NAMES wine wine64 wine-stable PATHS /usr/lib/wine)
if(CLATTN_WINE)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${CLATTN_WINE})
endif()
