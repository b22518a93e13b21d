# How every file of ours is compiled: the baseline, the floating-point contract, warnings, sanitizers.

# LOCKSTEP_PROCESSOR: whose sources are compiled; LOCKSTEP_PROCESSOR_OTHER: those that are left out.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  # Baseline x86-64-v2; faster instruction sets are chosen at run time, never here.
  add_compile_options(-march=x86-64-v2)
  # Highway compiles its baseline, AVX2 and AVX3 only: not SSE4 and the variants of AVX-512 (bits 3 to 7, 10, 11, 13 of its targets).
  add_compile_definitions(HWY_DISABLED_TARGETS=0x2CF8)
  set(LOCKSTEP_PROCESSOR x86)
  set(LOCKSTEP_PROCESSOR_OTHER "/aarch64/")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  # A char has a sign, as on x86-64.
  add_compile_options(-march=armv8-a+crypto -fsigned-char)
  # NEON, which Highway uses with AES. SVE's vectors have no length that a compiler knows.
  add_compile_definitions(HWY_COMPILE_ONLY_STATIC)
  set(LOCKSTEP_PROCESSOR aarch64)
  set(LOCKSTEP_PROCESSOR_OTHER "/x86/")
else()
  message(FATAL_ERROR "There are kernels for x86-64 and aarch64, not for ${CMAKE_SYSTEM_PROCESSOR}")
endif()
# Contraction would let each compiler choose where an fma goes, and so change bits (docs/numerics.md).
add_compile_options(-ffp-contract=off)

set(LOCKSTEP_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them: address,undefined or thread")
if(LOCKSTEP_SANITIZE)
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
endif()

option(LOCKSTEP_FUZZ "Build the fuzzers of tests/fuzz with libFuzzer (Clang)" OFF)
if(LOCKSTEP_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

set(united $<BOOL:${LOCKSTEP_UNITY}>)
# With ThreadSanitizer, GCC takes a variant's other alternatives for used.
string(COMPARE EQUAL "${LOCKSTEP_SANITIZE}" thread takes_alternatives)
add_library(lockstep_warnings INTERFACE)
target_compile_options(lockstep_warnings INTERFACE
  # Of sources compiled as one, one's locals and another's constants share names, and no type in them is a header's.
  -Wall -Wextra -Wpedantic -Wconversion $<$<NOT:${united}>:-Wshadow> -Wnon-virtual-dtor -Wold-style-cast
  $<$<AND:${united},$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>
  # GCC's -Wconversion leaves signs out too; and the stable_sort of its library calls what the same library deprecates.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion -Wno-deprecated-declarations>
  # GCC 12 takes short strings' own buffers for overruns once it has inlined them; AddressSanitizer looks for the true ones.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread>
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${takes_alternatives}>>:-Wno-maybe-uninitialized>
  $<$<AND:${united},$<CXX_COMPILER_ID:GNU>>:-Wno-free-nonheap-object>
  # A reference that a function gives out of a table is taken for one to its argument.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-dangling-reference>
  $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>)

# Tests are compiled once and run once: what they call is optimised, they need not be.
add_library(lockstep_test_flags INTERFACE)
target_compile_options(lockstep_test_flags INTERFACE $<$<CONFIG:Release>:-O1>)

find_program(LOCKSTEP_CCACHE ccache)
if(LOCKSTEP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness that caching beside precompiled headers asks for.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${LOCKSTEP_CCACHE})
endif()
