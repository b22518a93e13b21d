# lockstep_layer(NAME USES layer... [PRIVATE library...]): the static library of src/NAME and its tests in tests/NAME.
# A folder without sources is a layer of headers. main.cpp belongs to the program, not to the layer.
function(lockstep_layer name)
  cmake_parse_arguments(arg "" "" "USES;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$|/plugin/|${LOCKSTEP_PROCESSOR_OTHER}|${LOCKSTEP_URING_OTHER}$|${LOCKSTEP_CUDA_OTHER}")
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC ${arg_USES} PRIVATE lockstep_warnings ${arg_PRIVATE})
    target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
    if(LOCKSTEP_PCH)
      target_precompile_headers(${name} REUSE_FROM pch_layer)
    endif()
    lockstep_united(${name})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${arg_USES})
    target_include_directories(${name} INTERFACE ${PROJECT_SOURCE_DIR}/src)
  endif()
  lockstep_tests(${name} USES ${name})
endfunction()

# lockstep_tests(NAME USES layer...): one GoogleTest program of tests/NAME/*.cpp, its cases registered with CTest.
function(lockstep_tests name)
  cmake_parse_arguments(arg "" "" "USES" ${ARGN})
  file(GLOB tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${name}/*.cpp)
  if(tests AND BUILD_TESTING)
    add_executable(test_${name} ${tests})
    target_link_libraries(test_${name} PRIVATE ${arg_USES} lockstep_warnings lockstep_test_flags GTest::gtest_main archive_fmt)
    target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    if(LOCKSTEP_PCH)
      target_precompile_headers(test_${name} REUSE_FROM pch_test)
    endif()
    lockstep_united(test_${name})
    gtest_discover_tests(test_${name} TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES
                         WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTIES TIMEOUT 300 LABELS ${name})
  endif()
endfunction()

# The conformance suite of comm once more, with ranks that mpirun starts: a program that starts itself under it.
function(lockstep_mpi_tests)
  set(folder ${PROJECT_SOURCE_DIR}/tests/comm_mpi)
  add_executable(test_comm_mpi ${folder}/mpi_test.cpp ${folder}/cases.cpp ${folder}/plugins_test.cpp
                 ${PROJECT_SOURCE_DIR}/tests/comm/conformance_test.cpp)
  target_link_libraries(test_comm_mpi PRIVATE comm lockstep_warnings lockstep_test_flags GTest::gtest archive_fmt)
  target_include_directories(test_comm_mpi PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  gtest_discover_tests(test_comm_mpi TEST_PREFIX comm_mpi. TEST_FILTER Mpi* DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES
                       WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTIES TIMEOUT 300 LABELS comm)
endfunction()
