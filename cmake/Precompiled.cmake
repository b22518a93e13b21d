# Precompiled headers halve the time of a full build. No source relies on them: the `tidy` preset and a plain configure do without.
option(LOCKSTEP_PCH "Precompile what most sources include" OFF)

function(lockstep_precompiled name)
  cmake_parse_arguments(arg "" "" "HEADERS;PRIVATE" ${ARGN})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/${name}.cpp CONTENT "")
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/generated/${name}.cpp)
  target_link_libraries(${name} PRIVATE lockstep_warnings ${arg_PRIVATE})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

if(LOCKSTEP_PCH)
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # for ccache
  lockstep_precompiled(pch_layer PRIVATE archive_fmt
    HEADERS <fmt/format.h> <algorithm> <array> <cstdint> <functional> <memory> <span> <string> <vector>)
  if(BUILD_TESTING)
    lockstep_precompiled(pch_test PRIVATE lockstep_test_flags archive_fmt GTest::gtest
      HEADERS <gtest/gtest.h> <fmt/format.h> <functional>)
  endif()
endif()
