#pragma once

// Names that people can tell runs apart by.

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep::app {

/// "brisk-heron-417": drawn from the seed and the time, so that runs of one seed differ.
std::string make_run_name(std::uint64_t seed,
                          std::chrono::nanoseconds time = std::chrono::system_clock::now().time_since_epoch());

}  // namespace lockstep::app
