#pragma once

// How a run came to be: what its environment.json says to people.

#include <optional>
#include <string>

#include "io/file.h"

namespace lockstep::app {

struct RunOrigin {
  std::string machine;  ///< "AMD EPYC, 2 cores, 23.54 GiB, Linux 6.1 x86_64 (node7)"
  std::string time;     ///< "2026-11-26 13:41 UTC", when it last began
  std::string program;  ///< "0.1.0, commit 452b9843a589 with other changes"
  std::string command;  ///< as it is pasted into a shell
};

/// None: the folder has no such file, or it may not be read. Throws UserError for a file that is no JSON.
std::optional<RunOrigin> read_origin(const io::Path& folder);

}  // namespace lockstep::app
