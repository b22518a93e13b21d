# liburing by its header and library, which Debian ships without a CMake configuration: target lockstep_uring, empty without it.
# LOCKSTEP_URING_OTHER: the source to be left out.
find_path(URING_INCLUDE_DIR liburing.h)
find_library(URING_LIBRARY uring)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Uring REQUIRED_VARS URING_LIBRARY URING_INCLUDE_DIR)
if(Uring_FOUND)
  set(LOCKSTEP_URING_OTHER "uring/absent\\.cpp")
  target_include_directories(lockstep_uring SYSTEM INTERFACE ${URING_INCLUDE_DIR})
  target_link_libraries(lockstep_uring INTERFACE ${URING_LIBRARY})
endif()
mark_as_advanced(URING_INCLUDE_DIR URING_LIBRARY)
