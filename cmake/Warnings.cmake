# One place for warnings and for the floating-point contract of every translation unit.
add_library(lockstep_warnings INTERFACE)
target_compile_options(lockstep_warnings INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast
                                                   $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>)
