#pragma once

// What a run ran on and with: written into the run folder, so that it can be repeated and compared.

#include <string>
#include <vector>

#include "base/json.h"

namespace lockstep::app {

/// {"program": version, compiler, flags; "command_line"; "time"; "host": name, system, CPU model, cores, memory, instruction
/// sets; "libraries": name -> version; "source": git hash and uncommitted changes of the working directory, or null outside a git
/// tree; "environment": sorted, of variables on a list, which may change a run or say where it ran; secrets hidden}. URLs have no
/// credentials and no query. Asks `git`; nothing here throws because something is not there. `command_line`: the program's name
/// and arguments.
Json environment_manifest(const std::vector<std::string>& command_line);

/// Whether files may have the value of the variable: it is on the list, and holds no secret by its name.
bool may_be_kept(const std::string& name);

/// `text` whose URLs have lost user, password and query.
std::string without_credentials(const std::string& text);

/// The commit and the uncommitted diff ("" when clean) of the git tree around `folder`; null when there is no such tree or no
/// git.
Json source_state(const std::string& folder);

}  // namespace lockstep::app
