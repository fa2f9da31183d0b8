# What is installed, and the package configuration by which other projects find it:
# find_package(troupe [COMPONENTS actors proto]).
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/troupe)
set(header_dir ${CMAKE_INSTALL_INCLUDEDIR}/troupe)

install(TARGETS troupe EXPORT troupeTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET troupe_program)
  set_target_properties(troupe_program PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS troupe_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# The public headers and nothing else; the schemas, since they are the format of files.
install(DIRECTORY include/troupe/ DESTINATION ${header_dir} FILES_MATCHING PATTERN *.h)
install(FILES ${TROUPE_GEN}/troupe/ops.h DESTINATION ${header_dir})
install(DIRECTORY ${TROUPE_GEN}/troupe/proto DESTINATION ${header_dir} FILES_MATCHING PATTERN *.pb.h)
install(DIRECTORY proto/ DESTINATION ${header_dir}/proto FILES_MATCHING PATTERN *.proto)

configure_package_config_file(cmake/troupeConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/cmake/troupeConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/cmake/troupeConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(EXPORT troupeTargets NAMESPACE troupe:: DESTINATION ${package_dir})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cmake/troupeConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/cmake/troupeConfigVersion.cmake
  cmake/FindCAF.cmake DESTINATION ${package_dir})
