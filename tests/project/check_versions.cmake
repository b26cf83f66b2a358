# cmake -DSOURCE=FOLDER -P check_versions.cmake
# CMake 3.20 is enough, and 3.21 for the presets (Ubuntu 22.04 has 3.22): every file that states a version states these.
cmake_minimum_required(VERSION 3.20)

# expect(FILE REGEX VERSION): FILE states a version by REGEX, whose group it is, and it is VERSION.
function(expect file regex version)
    file(READ ${SOURCE}/${file} text)
    if(NOT text MATCHES "${regex}")
        message(SEND_ERROR "${file}: nothing like ${regex}")
    elseif(NOT CMAKE_MATCH_1 STREQUAL version)
        message(SEND_ERROR "${file}: states CMake ${CMAKE_MATCH_1}, where ${version} is enough")
    endif()
endfunction()

file(GLOB projects RELATIVE ${SOURCE} ${SOURCE}/CMakeLists.txt ${SOURCE}/examples/*/CMakeLists.txt
     ${SOURCE}/tests/project/names/CMakeLists.txt)
foreach(project IN LISTS projects)
    expect(${project} "cmake_minimum_required\\(VERSION ([0-9.]+)\\)" 3.20)
endforeach()
foreach(page README.md docs/building.md)
    expect(${page} "CMake ≥ ([0-9.]+) " 3.20)
    expect(${page} "presets: ([0-9.]+)\\)" 3.21)
endforeach()
expect(cmake/bootstrap.sh "CMake >= ([0-9.]+)," 3.21)

# What CMake learned later, and has no value before.
file(STRINGS ${SOURCE}/CMakeLists.txt later REGEX "PROJECT_IS_TOP_LEVEL")
if(later)
    message(SEND_ERROR "CMakeLists.txt: PROJECT_IS_TOP_LEVEL is empty before CMake 3.21: ${later}")
endif()

file(READ ${SOURCE}/CMakePresets.json presets)
string(JSON version GET "${presets}" version)
string(JSON major GET "${presets}" cmakeMinimumRequired major)
string(JSON minor GET "${presets}" cmakeMinimumRequired minor)
if(NOT version EQUAL 3 OR NOT "${major}.${minor}" STREQUAL 3.21)
    message(SEND_ERROR "CMakePresets.json: version ${version} for CMake ${major}.${minor}; 3, for 3.21, is enough")
endif()
