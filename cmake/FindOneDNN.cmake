# Finds oneDNN by its header and library. The configuration file of the distribution's package also
# wants OpenCL's development files, which Troupe has no use for.
#
# Defines OneDNN_FOUND, OneDNN_VERSION and the target DNNL::dnnl.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(DNNL_LIBRARY dnnl)
if(DNNL_INCLUDE_DIR AND EXISTS ${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h)
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS ${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h _dnnl_line REGEX "#define DNNL_VERSION_${part} +[0-9]+")
    string(REGEX REPLACE ".* ([0-9]+).*" "\\1" _dnnl_${part} "${_dnnl_line}")
  endforeach()
  set(OneDNN_VERSION ${_dnnl_MAJOR}.${_dnnl_MINOR}.${_dnnl_PATCH})
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN REQUIRED_VARS DNNL_LIBRARY DNNL_INCLUDE_DIR VERSION_VAR OneDNN_VERSION)
mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY)
if(OneDNN_FOUND AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
endif()
