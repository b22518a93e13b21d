#pragma once

// Two benches of ml-engineering that the tables of bench_collectives do not have. One is its all_reduce bench of 2023, which
// prints bits a second by trial and rank. The other compares gathering objects with reducing a tensor.

#include <cstdint>
#include <string>
#include <vector>

#include "base/text/answer.h"
#include "comm/communicator.h"
#include "device/runtime.h"

namespace lockstep::lab {

struct LegacyReport {
  std::vector<std::string> names;            ///< of the ranks, "host:local_rank"
  std::int64_t bytes = 0;                    ///< of the payload
  std::vector<std::vector<double>> seconds;  ///< by trial, then by rank
};

/// Times all-reduces (sums) of `bytes` of f32, rounded down to a multiple of the ranks, without warm-up. `name` is this rank's.
/// The other arguments are the same on every rank; collective.
LegacyReport bench_legacy(std::int64_t bytes, int trials, const std::string& name, Runtime& runtime, comm::Communicator& world);
/// The report as its authors' program printed it. "algo throughput" is 2 x payload / seconds. busbw is 2 (n - 1) / n of payload /
/// seconds.
Answer answer_of(const LegacyReport& report);

/// Two ways in which ranks tell each other that they are done: median seconds of a call on the slowest rank.
struct FlagReport {
  int ranks = 1, calls = 0;
  double objects = 0;  ///< every rank's flag as a text, gathered by all: its length, then its bytes
  double tensors = 0;  ///< an all-reduce of one number
};

/// Collective; the same on every rank.
FlagReport bench_flags(int calls, comm::Communicator& world);
Answer answer_of(const FlagReport& report);

}  // namespace lockstep::lab
