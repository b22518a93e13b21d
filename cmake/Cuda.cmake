# NVIDIA GPUs. With LOCKSTEP_CUDA, the folders cuda/ of device and ops take the place of absent/. All that is NVIDIA's comes from one
# root: its usual place, or the folder nvidia/cu13 of PyPI's wheels. The runtime is linked in, so that the program starts without a driver.
option(LOCKSTEP_CUDA "Build the kernels for NVIDIA GPUs" OFF)
set(LOCKSTEP_CUDA_ROOT /usr/local/cuda CACHE PATH "Where nvcc and CUDA's headers and libraries are")
set(LOCKSTEP_CUDA_ARCHITECTURES "80-real;90a-real;100" CACHE STRING "What nvcc compiles for, as CMAKE_CUDA_ARCHITECTURES")

# lockstep_hash_of_kernels(VARIABLE TEXT): a hash of the kernels' sources and of TEXT, by which a certificate knows them.
function(lockstep_hash_of_kernels variable text)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/cuda/*)
  list(SORT sources)
  foreach(source ${sources})
    file(SHA256 ${source} of_source)
    string(APPEND text " ${of_source}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  endforeach()
  string(SHA256 hash "${text}")
  string(SUBSTRING ${hash} 0 16 hash)
  set(${variable} ${hash} PARENT_SCOPE)
endfunction()

# lockstep_gpu_tests(): test_gpu, which tries on the GPU at hand what test_cuda tries on an emulated one. It is built when it is asked for.
function(lockstep_gpu_tests)
  if(NOT LOCKSTEP_CUDA)
    return()
  endif()
  set(tests ${PROJECT_SOURCE_DIR}/tests/cuda)
  add_executable(test_gpu EXCLUDE_FROM_ALL $<TARGET_OBJECTS:test_ops> ${tests}/other_machines.cpp ${tests}/tensor_core_test.cpp
                                           ${tests}/engine/engine_test.cpp ${tests}/engine/kernel_trials_test.cpp
                                           ${PROJECT_SOURCE_DIR}/tests/gpu/gpu_kinds.cpp)
  target_include_directories(test_gpu PRIVATE ${PROJECT_SOURCE_DIR}/tests ${tests})
  target_link_libraries(test_gpu PRIVATE lab reference_ops lockstep_warnings lockstep_test_flags GTest::gtest_main archive_fmt)
endfunction()

set(LOCKSTEP_CUDA_OTHER "/(device|ops)/cuda/")
if(NOT LOCKSTEP_CUDA)
  return()
endif()
set(LOCKSTEP_CUDA_OTHER "/(device|ops)/absent/")

find_program(LOCKSTEP_NVCC nvcc PATHS ${LOCKSTEP_CUDA_ROOT}/bin NO_DEFAULT_PATH)
find_path(LOCKSTEP_CUDA_INCLUDE cuda_runtime_api.h PATHS ${LOCKSTEP_CUDA_ROOT} PATH_SUFFIXES include targets/x86_64-linux/include
          NO_DEFAULT_PATH)
find_library(LOCKSTEP_CUDART libcudart_static.a PATHS ${LOCKSTEP_CUDA_ROOT}
             PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib NO_DEFAULT_PATH)
if(NOT LOCKSTEP_NVCC OR NOT LOCKSTEP_CUDA_INCLUDE OR NOT LOCKSTEP_CUDART)
  message(FATAL_ERROR "LOCKSTEP_CUDA_ROOT=${LOCKSTEP_CUDA_ROOT} has no nvcc, no headers or no libcudart_static.a. Install CUDA 13 there, "
                      "or give the folder that has it: -DLOCKSTEP_CUDA_ROOT=FOLDER")
endif()
set(CMAKE_CUDA_COMPILER ${LOCKSTEP_NVCC})
set(CMAKE_CUDA_ARCHITECTURES ${LOCKSTEP_CUDA_ARCHITECTURES})
set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 13 has it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()
if(LOCKSTEP_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${LOCKSTEP_CCACHE})
endif()
add_library(lockstep_cudart INTERFACE)
target_include_directories(lockstep_cudart SYSTEM INTERFACE ${LOCKSTEP_CUDA_INCLUDE})
target_link_libraries(lockstep_cudart INTERFACE ${LOCKSTEP_CUDART} Threads::Threads ${CMAKE_DL_LIBS} rt)

# lockstep_kernels(LAYER FOLDER): the kernels of FOLDER become part of the layer. Each operation rounds as IEEE 754 says, and none is
# contracted (docs/numerics.md).
function(lockstep_kernels layer folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cu)
  set(of_hopper ${sources})
  list(FILTER of_hopper INCLUDE REGEX "/warpgroups[.]cu$")
  list(REMOVE_ITEM sources ${of_hopper})
  add_library(${layer}_kernels OBJECT ${sources})
  add_library(${layer}_hopper_kernels OBJECT ${of_hopper})
  set_target_properties(${layer}_hopper_kernels PROPERTIES CUDA_ARCHITECTURES 90a-real)
  # In place of what the other compiler is told.
  set(flags "--fmad=false;--ftz=false;--prec-div=true;--prec-sqrt=true;--expt-relaxed-constexpr;-Xcompiler=-ffp-contract=off,-Wall;-Xptxas=--warn-on-spills;$<$<BOOL:${LOCKSTEP_WERROR}>:-Werror=all-warnings>")
  foreach(kernels ${layer}_kernels ${layer}_hopper_kernels)
    target_include_directories(${kernels} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    set_target_properties(${kernels} PROPERTIES COMPILE_OPTIONS "${flags}")
    target_sources(${layer} PRIVATE $<TARGET_OBJECTS:${kernels}>)
  endforeach()
  lockstep_hash_of_kernels(hash "${flags};${CMAKE_CUDA_COMPILER_VERSION};${CMAKE_CUDA_ARCHITECTURES}")
  set_source_files_properties(${PROJECT_SOURCE_DIR}/${folder}/backend.cu PROPERTIES COMPILE_DEFINITIONS LOCKSTEP_KERNELS_HASH="${hash}")
  target_link_libraries(${layer} PRIVATE lockstep_cudart)
endfunction()
