# yaml-cpp's archive, which its own CMake configuration leaves out: target yaml::cpp.
find_path(YAML_CPP_INCLUDE_DIR yaml-cpp/yaml.h)
find_library(YAML_CPP_LIBRARY yaml-cpp)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(YamlCpp REQUIRED_VARS YAML_CPP_LIBRARY YAML_CPP_INCLUDE_DIR)
mark_as_advanced(YAML_CPP_INCLUDE_DIR YAML_CPP_LIBRARY)
if(YamlCpp_FOUND AND NOT TARGET yaml::cpp)
  add_library(yaml::cpp UNKNOWN IMPORTED)
  set_target_properties(yaml::cpp PROPERTIES IMPORTED_LOCATION "${YAML_CPP_LIBRARY}"
                                             INTERFACE_INCLUDE_DIRECTORIES "${YAML_CPP_INCLUDE_DIR}")
endif()
