# Tests of the project as a whole: the public header, exported names, the installed package and the examples, the
# format of the sources, the kernels under other compilers; with CLATTN_CI, other builds.
# Labels choose among them: unit, pocl (a program runs on a device), install, example, package, format, offline, cross, build,
# fuzz.

function(clattn_project_test name label)
    add_test(NAME ${name} COMMAND ${ARGN})
    set_tests_properties(${name} PROPERTIES LABELS ${label} SKIP_RETURN_CODE 77 
                         ENVIRONMENT "CLATTN_CACHE_DIR=;CLATTN_TUNING=")
endfunction()

# ---- The public header alone, and what the library exports --------------------------------------------------------

set(header ${PROJECT_SOURCE_DIR}/include/clattn.h)
if(NOT MSVC)
    clattn_project_test(header_c11 unit ${CMAKE_C_COMPILER} -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only
                        -x c -include ${header} /dev/null)
    set(layer_header -I${PROJECT_SOURCE_DIR}/include -include ${PROJECT_SOURCE_DIR}/include/clattn_layer.h)
    clattn_project_test(header_layer_c11 unit ${CMAKE_C_COMPILER} -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only
                        -x c ${layer_header} /dev/null)
    find_program(CLATTN_CXX_COMPILER NAMES ${CMAKE_CXX_COMPILER} c++ g++ clang++)
    if(CLATTN_CXX_COMPILER)
        clattn_project_test(header_cxx unit ${CLATTN_CXX_COMPILER} -std=c++11 -Wall -Wextra -Werror -fsyntax-only
                            -x c++ -include ${header} /dev/null)
        clattn_project_test(header_layer_cxx unit ${CLATTN_CXX_COMPILER} -std=c++11 -Wall -Wextra -Werror -fsyntax-only
                            -x c++ ${layer_header} /dev/null)
    endif()
endif()
if(CMAKE_NM AND UNIX AND NOT APPLE)
    clattn_project_test(exports_shared unit ${CMAKE_COMMAND} -DNM=${CMAKE_NM} -DFLAGS=-D
                        -DLIBRARY=$<TARGET_FILE:clattn_shared>
                        -P ${PROJECT_SOURCE_DIR}/cmake/check_exports.cmake)
    clattn_project_test(exports_layers unit ${CMAKE_COMMAND} -DNM=${CMAKE_NM} -DFLAGS=-D
                        -DLIBRARY=$<TARGET_FILE:clattn_layers_shared>
                        -P ${PROJECT_SOURCE_DIR}/cmake/check_exports.cmake)
    if(CMAKE_OBJCOPY)
        clattn_project_test(exports_static unit ${CMAKE_COMMAND} -DNM=${CMAKE_NM}
                            -DLIBRARY=$<TARGET_FILE:clattn_sealed> -P ${PROJECT_SOURCE_DIR}/cmake/check_exports.cmake)
    endif()
endif()

find_program(CLATTN_BASH bash)
if(CLATTN_BASH AND UNIX AND NOT APPLE)
    clattn_project_test(abi package ${CLATTN_BASH} ${PROJECT_SOURCE_DIR}/cmake/check_abi.sh ${PROJECT_BINARY_DIR}/abi
                        ${CMAKE_C_COMPILER} ${CMAKE_C_FLAGS})
endif()

# ---- The installed package and the examples that use it ----------------------------------------------------------

set(prefix ${PROJECT_BINARY_DIR}/installed)
set(trial ${PROJECT_BINARY_DIR}/examples)
clattn_project_test(install install ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --prefix ${prefix}
                    --config $<CONFIG>)
set_tests_properties(install PROPERTIES FIXTURES_SETUP installed)

# clattn_build_test(NAME FOLDER PROGRAM [configure options…]): configures, builds and runs a project as a user would.
function(clattn_build_test name folder program)
    clattn_project_test(${name} example ${CMAKE_CTEST_COMMAND}
        --build-and-test ${PROJECT_SOURCE_DIR}/${folder} ${trial}/${name}
        --build-generator ${CMAKE_GENERATOR}
        --build-options -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER} -DCMAKE_C_FLAGS=${CMAKE_C_FLAGS}
                        -DCMAKE_BUILD_TYPE=$<CONFIG> ${ARGN}
        --test-command ${program})
endfunction()

function(clattn_example_test name example)
    clattn_build_test(${name} examples/${example} ${example} ${ARGN})
endfunction()

clattn_example_test(example_reference_shared reference_only -DCMAKE_PREFIX_PATH=${prefix} -DBUILD_SHARED_LIBS=ON)
clattn_example_test(example_reference_static reference_only -DCMAKE_PREFIX_PATH=${prefix} -DBUILD_SHARED_LIBS=OFF)
clattn_example_test(example_reference_subdirectory reference_only -DCMAKE_DISABLE_FIND_PACKAGE_clattn=ON)
set_tests_properties(example_reference_shared example_reference_static PROPERTIES FIXTURES_REQUIRED installed)

clattn_build_test(names_installed tests/names m -DCMAKE_PREFIX_PATH=${prefix})
clattn_build_test(names_subdirectory tests/names m -DCMAKE_DISABLE_FIND_PACKAGE_clattn=ON)
set_tests_properties(names_installed PROPERTIES FIXTURES_REQUIRED installed)

find_package(OpenCL QUIET)
if(OpenCL_FOUND)
    foreach(example own_context decode threads)
        clattn_example_test(example_${example} ${example} -DCMAKE_PREFIX_PATH=${prefix})
        set_tests_properties(example_${example} PROPERTIES FIXTURES_REQUIRED installed)
    endforeach()
endif()

find_program(CLATTN_PKG_CONFIG NAMES pkg-config pkgconf)
if(CLATTN_BASH AND CLATTN_PKG_CONFIG)
    clattn_project_test(example_pkg_config example ${CLATTN_BASH} ${PROJECT_SOURCE_DIR}/cmake/check_pkg_config.sh
                        ${prefix} ${PROJECT_SOURCE_DIR}/examples/reference_only/main.c ${trial}/pkg_config
                        ${CMAKE_C_COMPILER} ${CMAKE_C_FLAGS})
    clattn_project_test(example_readme example ${CLATTN_BASH} ${PROJECT_SOURCE_DIR}/cmake/check_pkg_config.sh
                        ${prefix} ${PROJECT_SOURCE_DIR}/README.md ${trial}/readme ${CMAKE_C_COMPILER} ${CMAKE_C_FLAGS})
    set_tests_properties(example_pkg_config example_readme PROPERTIES FIXTURES_REQUIRED installed)
endif()

# One C file
if(CLATTN_BASH AND CMAKE_NM AND UNIX AND NOT APPLE AND OpenCL_FOUND)
    clattn_project_test(make_amalgamation example ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target clattn_amalgamation)
    set_tests_properties(make_amalgamation PROPERTIES FIXTURES_SETUP amalgamation RESOURCE_LOCK build)
    string(REPLACE "//" "/" amalgamation_includes
           "-I${CLATTN_CJSON_INCLUDE_DIR} -I${CLATTN_XXHASH_INCLUDE_DIR} -I${CLATTN_OPENCL_INCLUDE_DIR}")
    clattn_project_test(amalgamation example ${CLATTN_BASH} ${PROJECT_SOURCE_DIR}/cmake/check_amalgamation.sh
                        ${PROJECT_BINARY_DIR}/amalgamation "${CLATTN_CJSON_LIBRARY}" "${amalgamation_includes}" ${CMAKE_NM}
                        ${CMAKE_C_COMPILER})
    set_tests_properties(amalgamation PROPERTIES FIXTURES_REQUIRED amalgamation)
endif()

# Packages and releases; packages are builds of all there is, which the gate has no time for
if(CLATTN_BASH AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
    clattn_project_test(release package ${CLATTN_BASH} ${PROJECT_SOURCE_DIR}/cmake/check_release.sh
                        ${PROJECT_BINARY_DIR}/release)
    if(NOT CLATTN_CI)
        clattn_project_test(debs package ${CLATTN_BASH} ${PROJECT_SOURCE_DIR}/cmake/check_debs.sh ${PROJECT_BINARY_DIR}/debs
                            ${CMAKE_C_COMPILER})
        set_tests_properties(debs PROPERTIES TIMEOUT 600 COST 500)
        set_property(TEST debs APPEND PROPERTY ENVIRONMENT "CMAKE_GENERATOR=${CMAKE_GENERATOR}")
        clattn_project_test(conan package ${CLATTN_BASH} ${PROJECT_SOURCE_DIR}/cmake/check_conan.sh ${PROJECT_BINARY_DIR}/conan)
        set_tests_properties(conan PROPERTIES PROCESSORS 2 TIMEOUT 600)
    endif()
endif()

# C++: the header's own test with every compiler, and the example with CMake's
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
    clattn_example_test(example_cpp cpp -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER})
    set_tests_properties(example_cpp PROPERTIES FIXTURES_REQUIRED installed)
    if(OpenCL_FOUND AND CLATTN_BASH AND CLATTN_PKG_CONFIG)
        clattn_project_test(cpp pocl ${CLATTN_BASH} ${PROJECT_SOURCE_DIR}/cmake/check_cpp.sh ${prefix}
                            ${PROJECT_SOURCE_DIR}/tests/cpp_test.cpp ${trial}/cpp_test Portable ${CMAKE_C_FLAGS})
        set_tests_properties(cpp PROPERTIES FIXTURES_REQUIRED installed)
    endif()
endif()

if(TARGET clattn_cli)
    if(UNIX)
        clattn_project_test(readme.pictures unit sh ${PROJECT_SOURCE_DIR}/cmake/check_pictures.sh
                            $<TARGET_FILE:clattn_cli> ${PROJECT_SOURCE_DIR})
    endif()
    clattn_project_test(readme unit ${CMAKE_COMMAND} -DCLATTN=$<TARGET_FILE:clattn_cli>
                        -DREADME=${PROJECT_SOURCE_DIR}/README.md -P ${PROJECT_SOURCE_DIR}/cmake/check_readme.cmake)
endif()

if(CLATTN_BASH)
    clattn_project_test(devices_page unit ${CLATTN_BASH} ${PROJECT_SOURCE_DIR}/cmake/devices_page.sh --check)
    clattn_project_test(engines_page unit ${CLATTN_BASH} ${PROJECT_SOURCE_DIR}/cmake/check_engines.sh)
endif()

# ---- The order of the folders --------------------------------------------------------------------------------------

set(layers_objects "")
if(CMAKE_NM AND UNIX AND NOT APPLE AND NOT CMAKE_INTERPROCEDURAL_OPTIMIZATION)
    set(layers_objects -DNM=${CMAKE_NM} "-DOBJECTS=$<JOIN:$<TARGET_OBJECTS:clattn_static>,|>")
    if(TARGET clattn_cli)
        foreach(target clattn_layers_internal clattn_tuner clattn_command clattn_cli)
            string(APPEND layers_objects "|$<JOIN:$<TARGET_OBJECTS:${target}>,|>")
        endforeach()
    endif()
endif()
clattn_project_test(layers unit ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} ${layers_objects}
                    -P ${PROJECT_SOURCE_DIR}/cmake/check_layers.cmake)

# ---- Numbers that do not depend on the locale ------------------------------------------------------------------------

if(UNIX)
    clattn_project_test(numbers unit sh ${PROJECT_SOURCE_DIR}/cmake/check_numbers.sh ${PROJECT_SOURCE_DIR}/src)
endif()

# ---- Inline assembly of cl/ ----------------------------------------------------------------------------------------

clattn_project_test(assembly unit ${CMAKE_COMMAND} -DFOLDER=${PROJECT_SOURCE_DIR}/cl
                    -P ${PROJECT_SOURCE_DIR}/cmake/check_assembly.cmake)

# ---- The CMake that is asked for -----------------------------------------------------------------------------------

clattn_project_test(versions unit ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}
                    -P ${PROJECT_SOURCE_DIR}/cmake/check_versions.cmake)

# ---- What CONTRIBUTING.md shows ------------------------------------------------------------------------------------

if(CLATTN_BASH AND TARGET clattn_cli)
    clattn_project_test(contributing build ${CLATTN_BASH} ${PROJECT_SOURCE_DIR}/cmake/check_contributing.sh
                        ${PROJECT_BINARY_DIR}/contributing Portable)
endif()

# ---- Other systems: compiled, and run where wine or qemu can ----------------------------------------------------------

# clattn_platform_test(NAME SCRIPT ARGUMENTS…): two processes build, one runs what was built: early, beside another test
function(clattn_platform_test name script)
    clattn_project_test(${name} cross ${CLATTN_BASH} ${PROJECT_SOURCE_DIR}/cmake/${script} ${ARGN} ${CLATTN_CJSON_SOURCE})
    set_tests_properties(${name} PROPERTIES TIMEOUT 900 COST 500)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "CMAKE_GENERATOR=${CMAKE_GENERATOR}")
endfunction()

if(CLATTN_BASH AND CMAKE_NM AND TARGET clattn_cli AND UNIX AND NOT APPLE)
    clattn_platform_test(windows check_windows.sh ${PROJECT_BINARY_DIR}/windows ${CMAKE_NM} $<TARGET_FILE:clattn_cli>
                         "${CLATTN_CJSON_LIBRARY}")
    if(CLATTN_CI) # of each kind of rule one; elsewhere all
        set_property(TEST windows APPEND PROPERTY ENVIRONMENT
                     "CLATTN_WINDOWS_RULES=gla gated_delta_rule rwkv7 mlstm softmax_attn")
    endif()
    # zig's first builds make its C libraries, minutes long: in the gate for the system that no other compiler reaches
    set(platforms linux-aarch64 macos-arm64)
    if(NOT CLATTN_CI)
        list(APPEND platforms windows-zig manylinux)
    endif()
    foreach(platform IN LISTS platforms)
        clattn_platform_test(platform.${platform} check_platform.sh ${platform} ${PROJECT_BINARY_DIR}/${platform}
                             $<TARGET_FILE:clattn_cli>)
    endforeach()
endif()

# ---- The sources' format ------------------------------------------------------------------------------------------

find_program(CLATTN_CLANG_FORMAT clang-format-14)
if(CLATTN_BASH AND CLATTN_CLANG_FORMAT)
    clattn_project_test(format format ${CLATTN_BASH} ${PROJECT_SOURCE_DIR}/cmake/format.sh --check)
endif()

# ---- Every kernel under the compilers of devices that this machine need not have ----------------------------------

set(CLATTN_OFFLINE_TARGETS "gfx90a gfx942 gfx1030 gfx1100 sm_80" CACHE STRING
    "AMD and NVIDIA targets that cmake/offline_compile.sh compiles every kernel for")
set(CLATTN_OFFLINE_INTEL "skl tgllp dg2 pvc" CACHE STRING "Intel targets, whose kernels ask for the narrowest sub-group")

# clattn_offline(NAME TARGETS [-DSUB_GROUP=n [-DENGINE=name [-DRULES=…]]])
function(clattn_offline name targets)
    set(dump ${PROJECT_BINARY_DIR}/kernels_${name})
    clattn_project_test(dump_${name} offline ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:clattn_dump_kernels>
                        -DDIRECTORY=${dump} ${ARGN} -P ${PROJECT_SOURCE_DIR}/cmake/dump_kernels.cmake)
    clattn_project_test(offline_${name} offline ${CLATTN_BASH} ${PROJECT_SOURCE_DIR}/cmake/offline_compile.sh
                        $<$<BOOL:${CLATTN_CI}>:--strict> ${offline_once} --targets ${targets} ${dump})
    set_tests_properties(dump_${name} PROPERTIES FIXTURES_SETUP kernels_${name})
    set_tests_properties(offline_${name} PROPERTIES FIXTURES_REQUIRED kernels_${name} PROCESSORS 2 TIMEOUT 1200 COST 1000)
endfunction()

# The kernels on a matrix engine: one rule for each of the headers that make them.
set(CLATTN_OFFLINE_RULES "retention gated_delta_rule kda gdn2 dplr softmax_attn forgetting_attn path_attn deltaformer" CACHE STRING
    "Rules whose kernels on matrix engines cmake/offline_compile.sh compiles")
function(clattn_offline_engine engine sub_group targets)
    clattn_offline(${engine} ${targets} -DSUB_GROUP=${sub_group} -DENGINE=${engine} -DRULES=${CLATTN_OFFLINE_RULES})
endfunction()

if(CLATTN_BASH AND TARGET clattn_dump_kernels)
    set(offline_once "")
    if(CLATTN_CI)
        set(offline_once --once)
    endif()
    clattn_offline(compilers "${CLATTN_OFFLINE_TARGETS}")
    clattn_offline(intel "${CLATTN_OFFLINE_INTEL}" -DSUB_GROUP=8)
    set(offline_once "")
    clattn_offline_engine(nvidia 0 sm_90)
    if(CLATTN_CI) # the other one is the plain kernels' target
        clattn_offline_engine(amd_cdna 0 gfx942)
    else()
        clattn_offline_engine(amd_cdna 0 "gfx90a gfx942")
    endif()
    clattn_offline_engine(amd_rdna3 0 gfx1100)
    clattn_offline_engine(amd_rdna4 0 gfx1201)
    clattn_offline_engine(intel_8 8 dg2)
    clattn_offline_engine(intel_16 16 pvc)
endif()

# ---- With CLATTN_CI: other builds, and no tool may be missing -----------------------------------------------------

if(NOT CLATTN_CI)
    return()
endif()
find_program(CLATTN_ABIDW abidw)
foreach(tool CLATTN_ABIDW CLATTN_BASH CLATTN_PKG_CONFIG CLATTN_CLANG_FORMAT CLATTN_CXX_COMPILER)
    if(NOT ${tool})
        message(FATAL_ERROR "CLATTN_CI: no ${tool}; cmake/bootstrap.sh --test-tools installs it")
    endif()
endforeach()

foreach(script IN ITEMS clang_build sanitizers fuzz)
    clattn_project_test(${script} build ${CLATTN_BASH} ${PROJECT_SOURCE_DIR}/cmake/other_build.sh ${script})
    set_tests_properties(${script} PROPERTIES TIMEOUT 900 COST 500 ENVIRONMENT "CMAKE_GENERATOR=${CMAKE_GENERATOR}")
endforeach()
