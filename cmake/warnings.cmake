# clattn_warnings(target): the warnings that every file of ours compiles under.
set(clattn_gnu_warnings
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition
    -Wpointer-arith -Wcast-qual -Wcast-align -Wwrite-strings -Wundef -Wvla -Wformat=2 -Wdouble-promotion)
if(MINGW)
    list(APPEND clattn_gnu_warnings -Wno-float-conversion) # its isnan(x) holds a call for floats too, whatever x is
endif()
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    list(APPEND clattn_gnu_warnings -Wno-enum-float-conversion) # of C++; a part of -Wconversion since clang 20
endif()

function(clattn_warnings target)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "INTERFACE_LIBRARY")
        set(scope INTERFACE)
    else()
        set(scope PRIVATE)
    endif()
    if(MSVC)
        target_compile_options(${target} ${scope} $<BUILD_INTERFACE:/W4> $<$<BOOL:${CLATTN_WERROR}>:/WX>)
    else()
        target_compile_options(${target} ${scope} ${clattn_gnu_warnings} $<$<BOOL:${CLATTN_WERROR}>:-Werror>)
    endif()
endfunction()
