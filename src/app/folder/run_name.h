#pragma once

// Names that people can tell runs apart by.

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep::app {

/// "brisk-heron-417": drawn from the seed and the time, so that runs of one seed differ.
std::string make_run_name(std::uint64_t seed,
                          std::chrono::nanoseconds time = std::chrono::system_clock::now().time_since_epoch());

/// "2026-01-31-235959-3f9a01c7": the name of a run without one; many jobs may start in the same second.
std::string run_name_from_time();

}  // namespace lockstep::app
