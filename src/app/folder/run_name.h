#pragma once

// The name of a run without log.name.

#include <string>

namespace lockstep::app {

/// "2026-01-31-235959-3f9a01c7": many jobs may start in the same second.
std::string run_name_from_time();

}  // namespace lockstep::app
