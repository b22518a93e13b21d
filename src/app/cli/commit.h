#pragma once

// Which sources this program was built from: of the repository that they lie in, never of the folder where it runs.

#include <string>
#include <string_view>

namespace lockstep::app {

/// 40 hex digits; "unknown" where the sources lay in no repository of their own. Written by each build (cmake/Commit.cmake).
std::string_view built_commit();
/// Whether those sources had changes that are in no commit.
bool built_dirty();
/// "lockstep 0.1.0 (commit 0123..., dirty)".
std::string program_version();

}  // namespace lockstep::app
