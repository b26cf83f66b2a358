# The library, its header, and what find_package and pkg-config need to find them.
include(CMakePackageConfigHelpers)

install(TARGETS clattn_shared clattn_sealed EXPORT clattn-targets
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT library
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT dev
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/include/clattn.h ${PROJECT_SOURCE_DIR}/include/clattn.hpp
              ${PROJECT_SOURCE_DIR}/include/clattn_layer.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documents)

if(TARGET clattn_mpi_shared)
    install(TARGETS clattn_mpi_shared EXPORT clattn-mpi-targets
            RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT mpi
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi
            INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    install(FILES ${PROJECT_SOURCE_DIR}/include/clattn_mpi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT mpi)
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/clattn)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/clattn-config.cmake.in
                              ${PROJECT_BINARY_DIR}/clattn-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/clattn-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/clattn-config.cmake ${PROJECT_BINARY_DIR}/clattn-config-version.cmake
        DESTINATION ${package_dir} COMPONENT dev)
install(EXPORT clattn-targets NAMESPACE clattn:: DESTINATION ${package_dir} COMPONENT dev)
if(TARGET clattn_mpi_shared)
    install(EXPORT clattn-mpi-targets NAMESPACE clattn:: DESTINATION ${package_dir} COMPONENT mpi)
endif()

# The .pc file finds its prefix from where it lies, so that an installed tree can be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE libdir)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
           OUTPUT_VARIABLE pc_prefix)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}
           OUTPUT_VARIABLE includedir)
set(pc_libdir "\${prefix}/${libdir}")
set(pc_includedir "\${prefix}/${includedir}")
set(pc_private_libs -pthread)
if(NOT CLATTN_CJSON_SOURCE)
    string(APPEND pc_private_libs " -lcjson")
endif()
foreach(library IN LISTS CMAKE_DL_LIBS)
    string(APPEND pc_private_libs " -l${library}")
endforeach()
if(CLATTN_MATH_LIBRARY)
    string(APPEND pc_private_libs " -lm")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/clattn.pc.in ${PROJECT_BINARY_DIR}/clattn.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/clattn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
if(TARGET clattn_mpi_shared)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/clattn_mpi.pc.in ${PROJECT_BINARY_DIR}/clattn_mpi.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/clattn_mpi.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT mpi)
endif()

if(clattn_is_top_level)
    include(cmake/packages.cmake)
endif()
