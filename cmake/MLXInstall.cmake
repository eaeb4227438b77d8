# What `cmake --install` puts into a prefix: libraries, headers, the CMake package MLX, pkg-config
# files and licences.  Everything here is relative to the prefix, so a prefix can be moved.
include(CMakePackageConfigHelpers)

set(cmakedir ${CMAKE_INSTALL_LIBDIR}/cmake/MLX)
set(licensedir ${CMAKE_INSTALL_DATADIR}/licenses/mlx)

set(libraries mlx mlxc)
if(NOT SKBUILD)
  list(APPEND libraries mlx_static)
endif()
install(TARGETS ${libraries} EXPORT MLXTargets COMPONENT mlx
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_COMPONENT mlx
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(PROGRAMS ${MLX_OPENBLAS_LIBRARY} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mlx)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/mlx DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT mlx FILES_MATCHING PATTERN *.h)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${licensedir} COMPONENT mlx)
install(FILES ${PROJECT_SOURCE_DIR}/third_party/yyjson/LICENSE DESTINATION ${licensedir}
  RENAME yyjson.txt COMPONENT mlx)
if(MLX_OPENBLAS_LICENSE)
  install(FILES ${MLX_OPENBLAS_LICENSE} DESTINATION ${licensedir} RENAME openblas.txt COMPONENT mlx)
endif()

# The CMake package, for an installed prefix and for this build tree.
install(EXPORT MLXTargets DESTINATION ${cmakedir} COMPONENT mlx)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/MLXConfig.cmake.in
  ${PROJECT_BINARY_DIR}/install/MLXConfig.cmake INSTALL_DESTINATION ${cmakedir}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/install/MLXConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/install/MLXConfig.cmake
  ${PROJECT_BINARY_DIR}/install/MLXConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/extension.cmake DESTINATION ${cmakedir} COMPONENT mlx)

set(tree ${PROJECT_BINARY_DIR}/lib/cmake/MLX)
export(EXPORT MLXTargets FILE ${tree}/MLXTargets.cmake)
configure_file(${PROJECT_BINARY_DIR}/install/MLXConfig.cmake ${tree}/MLXConfig.cmake COPYONLY)
configure_file(${PROJECT_BINARY_DIR}/install/MLXConfigVersion.cmake
  ${tree}/MLXConfigVersion.cmake COPYONLY)
file(CREATE_LINK ${CMAKE_CURRENT_LIST_DIR}/extension.cmake ${tree}/extension.cmake SYMBOLIC)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include SYMBOLIC)

# pkg-config: libraries are found relative to the .pc file.
file(RELATIVE_PATH up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" up ${up})
foreach(name mlx mlx-c)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${name}.pc.in
    ${PROJECT_BINARY_DIR}/install/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/install/${name}.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT mlx)
endforeach()

# What `make docs` has made, if it has been run.
if(PROJECT_IS_TOP_LEVEL AND NOT SKBUILD)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/build/docs/man/man3
    DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT mlx OPTIONAL)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/build/docs/html
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/mlx COMPONENT mlx OPTIONAL)
endif()

# -lmlxc for programs that are built by hand.
if(NOT SKBUILD)
  install(CODE "file(CREATE_LINK libmlx.so
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/libmlxc.so\" SYMBOLIC)"
    COMPONENT mlx)
endif()
