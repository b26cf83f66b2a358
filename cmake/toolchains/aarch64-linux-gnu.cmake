# aarch64 Linux with Debian's and Ubuntu's gcc-aarch64-linux-gnu (and libc6-dev-arm64-cross).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
find_program(CMAKE_C_COMPILER aarch64-linux-gnu-gcc REQUIRED)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(what LIBRARY INCLUDE PACKAGE)
    set(CMAKE_FIND_ROOT_PATH_MODE_${what} ONLY)
endforeach()

# Under qemu, where there is one, ctest and --build-and-test run what was built.
find_program(CLATTN_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
if(CLATTN_QEMU)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${CLATTN_QEMU} -L /usr/aarch64-linux-gnu)
endif()
