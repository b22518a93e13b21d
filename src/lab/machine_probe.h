#pragma once

// The machine that ranks run on, measured for the planner: every rank at the same time, each with its share of the cores.

#include "comm/communicator.h"
#include "device/runtime.h"
#include "io/file.h"
#include "planner/machine.h"

namespace lockstep::lab {

/// How thoroughly the machine is measured. The defaults take some seconds.
struct ProbeOptions {
  io::Path folder = ".";  ///< on the disk that is measured; nothing is left there
  int steps = 6;          ///< of each model whose kernels are timed
  std::int64_t small_sum = 4096,
               large_sum = 16 << 20;  ///< bytes that ranks add up: the first tells latency, the second bandwidth
  int trials = 10;                    ///< timed sums of each size
  std::size_t disk_bytes = 64 << 20;  ///< written and read back; a multiple of 1 MiB
};

/// Measures the machine; a device is a rank. Its peak is its cores' multiply-adds, times ops::bf16_multiply_adds() for bf16.
/// Products of a layer reach a share of that. It has its part of the memory, of the memory's rate, and of the rate of sums over
/// ranks. `node`: the ranks of `world` on this rank's host; each host has as many. Figures are means over the ranks, and the same
/// on all. Throws UserError where the folder cannot be written. Collective.
planner::Machine probe_machine(const ProbeOptions& options, Runtime& runtime, comm::Communicator& world,
                               comm::Communicator& node);

}  // namespace lockstep::lab
