# macOS on arm64 with zig's clang: OpenCL's framework is opened at run time, so that nothing of Apple's is needed to link.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(CLATTN_ZIG_TARGET aarch64-macos)
include(${CMAKE_CURRENT_LIST_DIR}/zig.cmake)
