#pragma once

// Settings that tests make in the emulation, and facts that they read from it.

#include <cstdint>
#include <stdexcept>

namespace lockstep::emulation {

/// A kernel or a copy broke a rule of CUDA's. what() names the kernel, the rule, the places and the seed.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Sets the seed of all that is drawn by lot from here on: orders of threads, blocks and streams, and when copies are done.
void set_seed(std::uint64_t seed);
std::uint64_t seed();

/// Whether this program is built with ThreadSanitizer, which tells races: between threads of a block, of blocks and of streams.
bool races_are_watched();

/// Counts of the emulation's work since the program began.
struct Counts {
  std::uint64_t launches, blocks, switches, barriers, meetings, graphs;
};
Counts counts();

}  // namespace lockstep::emulation
