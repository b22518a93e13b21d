#pragma once

// What a run ran on and with: written into the run folder, so that it can be repeated and compared.

#include <string>
#include <vector>

#include "base/json.h"

namespace lockstep::app {

/// What a run ran on and with:
/// - "program": version, the commit of its sources and whether they had other changes, compiler, flags
/// - "command_line" and "time"
/// - "host": name, system, CPU model, cores, memory, instruction sets
/// - "libraries": name -> version
/// - "environment": sorted, variables on a list, which may change a run or say where it ran; secrets are hidden
///
/// URLs have no credentials and no query. Nothing here throws because something is not there. `command_line`: the program's name
/// and arguments.
Json environment_manifest(const std::vector<std::string>& command_line);

/// Whether files may have the value of the variable: it is on the list, and holds no secret by its name.
bool may_be_kept(const std::string& name);

/// `text` whose URLs have lost user, password and query.
std::string without_credentials(const std::string& text);

}  // namespace lockstep::app
