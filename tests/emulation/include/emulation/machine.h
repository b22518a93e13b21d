#pragma once

// What the emulated machine says of itself; tests change it.

#include <cstddef>

#include "driver_types.h"

namespace lockstep::emulation {

struct MachineSays {
  cudaError_t error = cudaSuccess;  ///< what the runtime says first: no driver, an old one, no GPU
  int driver = 13000;               ///< the newest CUDA that the driver knows; 0: there is none
  int capability = 90;              ///< ten times the compute capability
  std::size_t memory = std::size_t{8} << 30;
};
MachineSays& machine();

}  // namespace lockstep::emulation
