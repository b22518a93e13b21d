# The state of the sources, as a source: cmake -DSOURCE=FOLDER -DOUT=FILE -P Commit.cmake. Run by each build; what has not changed is
# not written again. A folder that only lies inside another repository has no commit of its own.
set(commit unknown)
set(dirty false)
find_program(GIT git)
foreach(name GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE)  # of a hook that builds
  unset(ENV{${name}})
endforeach()
# Another user may have cloned the folder (sudo make install).
function(git out)
  execute_process(COMMAND ${GIT} -C ${SOURCE} -c safe.directory=* --no-optional-locks ${ARGN}
                  OUTPUT_VARIABLE said RESULT_VARIABLE code ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE TIMEOUT 20)
  if(NOT code EQUAL 0)
    set(said failed)
  endif()
  set(${out} "${said}" PARENT_SCOPE)
endfunction()

if(GIT AND EXISTS ${SOURCE}/.git)
  git(head rev-parse HEAD)
  if(NOT head STREQUAL failed)
    git(changed status --porcelain --untracked-files=no)
    git(new ls-files --others --exclude-standard -- src cmake)  # sources are found by their folders
    set(commit ${head})
    if(NOT "${changed}${new}" STREQUAL "")
      set(dirty true)
    endif()
  endif()
endif()

set(text "// Written by cmake/Commit.cmake.
#include \"app/cli/commit.h\"

namespace lockstep::app {

std::string_view built_commit() { return \"${commit}\"; }
bool built_dirty() { return ${dirty}; }

}  // namespace lockstep::app
")
set(before "")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
