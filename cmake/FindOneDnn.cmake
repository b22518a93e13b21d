# oneDNN by its headers and library: Debian 12's own package file asks for OpenCL headers, which a CPU program does not need.
# LOCKSTEP_ONEDNN_OTHER: the source to be left out, which is for the other major version.
find_path(OneDnn_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(OneDnn_LIBRARY dnnl)
if(OneDnn_INCLUDE_DIR)
  set(header ${OneDnn_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h)
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS ${header} line REGEX "#define DNNL_VERSION_${part} +[0-9]+")
    string(REGEX REPLACE ".* ([0-9]+)$" "\\1" OneDnn_${part} "${line}")
  endforeach()
  set(OneDnn_VERSION ${OneDnn_MAJOR}.${OneDnn_MINOR}.${OneDnn_PATCH})
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDnn REQUIRED_VARS OneDnn_LIBRARY OneDnn_INCLUDE_DIR VERSION_VAR OneDnn_VERSION)

if(OneDnn_VERSION VERSION_LESS 3)
  set(LOCKSTEP_ONEDNN_OTHER "onednn_v3\\.cpp$")
else()
  set(LOCKSTEP_ONEDNN_OTHER "onednn_v2\\.cpp$")
endif()
mark_as_advanced(OneDnn_INCLUDE_DIR OneDnn_LIBRARY)
