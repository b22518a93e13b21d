# Eight sources compiled as one take a third of the time of eight. No source relies on it: the `dev`, `fuzz` and `tidy` presets and a
# plain configure compile each by itself.
option(LOCKSTEP_UNITY "Compile several sources of a target as one" OFF)

# Compiled alone: kernels (macros), what Highway includes once per instruction set, tables of functions (rows), tests with tables of
# cases, and a command's own file: they name their types and functions alike.
function(lockstep_united target)
  if(LOCKSTEP_UNITY AND NOT target STREQUAL ops)
    get_target_property(sources ${target} SOURCES)
    foreach(source IN LISTS sources)
      file(STRINGS ${source} alone REGEX "hwy/|^using Row = |^int run\\(const Arguments|^struct (Options|Case|Inputs|Matrix|Sizes|Whole) " LIMIT_COUNT 1)
      if(alone)
        set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
    endforeach()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()
