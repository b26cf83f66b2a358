# 64-bit Windows with zig's clang.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CLATTN_ZIG_TARGET x86_64-windows-gnu)
set(CLATTN_UNSEALED ON) # zig joins no objects of this format
include(${CMAKE_CURRENT_LIST_DIR}/zig.cmake)
