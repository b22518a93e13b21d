#pragma once

// How fast ranks exchange data. In every trial each rank's clock runs from a barrier until its blocking call returns. `algbw` is
// payload / time. `busbw` is algbw x a factor of the operation: the rate on each link if data goes around a ring. A payload is
// the buffer of a rank. For operations on parts it is the buffer with all parts.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/text/answer.h"
#include "comm/communicator.h"
#include "device/runtime.h"

namespace lockstep::lab {

/// busbw / algbw: all_reduce 2 (n - 1) / n; all_gather, reduce_scatter, all_to_all (n - 1) / n; others 1.
double bus_factor(comm::Collective op, int ranks);
/// Bytes that ranks on one host must at least read and write for a payload: every input once, every output once.
double floor_bytes(comm::Collective op, std::int64_t bytes, int ranks);

struct CollectiveBenchOptions {
  std::vector<comm::Collective> ops = {};  ///< a barrier has one row, without a payload
  std::vector<std::int64_t> bytes = {};    ///< of the payloads; rounded down to whole elements of every rank
  int trials = 20;
  int warmups = 5;
  std::function<bool()> stopped = {};  ///< asked after every trial; one rank that answers yes ends the bench. May be empty.
  std::function<void(comm::Collective, std::int64_t)> before_payload = {};  ///< may be empty
};

/// The trials of one payload.
struct CollectiveRow {
  comm::Collective op;
  int ranks;
  std::int64_t bytes;
  std::vector<double> slowest;    ///< seconds of the slowest rank, by trial
  std::vector<double> bandwidth;  ///< bytes/s (algbw), the mean of the ranks, by trial

  double median_seconds() const;  ///< of the slowest rank
  double algbw() const;           ///< mean over ranks and trials
  double busbw() const { return algbw() * bus_factor(op, ranks); }
  /// The seconds that `floor_bytes` take at `memory_bandwidth` bytes/s, over median_seconds().
  double share_of_floor(double memory_bandwidth) const;
};

/// One large all_reduce against the same bytes in many small ones.
struct LatencyReport {
  std::int64_t bytes = 0;  ///< of all pieces together
  int pieces = 0;
  double large = 0, small = 0;  ///< seconds of the slowest rank, medians
};

struct CollectiveReport {
  std::string peer;  ///< this program and its version
  std::string environment;
  int ranks = 1, hosts = 1, warmups = 0, trials = 0;
  double memory_bandwidth = 0;  ///< bytes/s of STREAM's triad on the cores of all ranks
  double elapsed = 0;           ///< seconds
  bool stopped = false;         ///< whether it ended early
  std::vector<CollectiveRow> rows = {};
};

/// Payloads from 32 KiB, doubled, up to 16 GiB or what ranks can hold in half of `free_bytes`; at least one payload.
std::vector<std::int64_t> default_payloads(const std::vector<comm::Collective>& ops, int ranks, std::int64_t free_bytes);
/// Throws UserError for a payload that gives a rank no element or that does not fit into `free_bytes`.
void check_payloads(const CollectiveBenchOptions& options, int ranks, std::int64_t free_bytes);

/// Adds rows to the report, the same on every rank. Values are checked before timing: SystemError when a collective is wrong.
/// Collective; sets `rows` and `stopped`.
void bench_collectives(const CollectiveBenchOptions& options, Runtime& runtime, comm::Communicator& world,
                       CollectiveReport& report);
/// Times `bytes` in one all-reduce, then in `pieces`; collective.
LatencyReport bench_latency(std::int64_t bytes, int pieces, Runtime& runtime, comm::Communicator& world);

/// Tables, legend and plot. JSON has a line for each payload, with the keys that other programs' collective benchmarks print.
Answer answer_of(const CollectiveReport& report);
/// A row for each trial as text; JSON as in answer_of().
Answer stability_of(const CollectiveReport& report);
Answer answer_of(const LatencyReport& report, int ranks);

}  // namespace lockstep::lab
