#pragma once

// How fast ranks get their batches from a file, in each way of data.io. The same bytes are also read raw, for comparison.

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text/answer.h"
#include "comm/communicator.h"
#include "io/file.h"

namespace lockstep::lab {

struct IoBenchOptions {
  io::Path folder = ".";               ///< on the file system that is measured; the bench makes a file in it and removes it
  std::int64_t bytes = 256LL << 20;    ///< of the file
  std::int64_t samples = 8;            ///< of a rank's batch
  std::int64_t positions = 1024;       ///< of a sample
  std::vector<std::string> ways = {};  ///< files, readers, mpi: as data.io
  int readers = 1;                     ///< readers, for the way `readers`
  int workers = 1;                     ///< data.workers; the way `mpi` has none
  int rounds = 3;
};

struct IoRow {
  std::string way;
  int ranks = 1;
  std::int64_t bytes = 0;            ///< of tokens that all ranks got
  std::vector<double> seconds, raw;  ///< of the slowest rank, by round; `raw`: plain reads

  double rate() const;   ///< GB/s, the median of rounds
  double share() const;  ///< of the raw rate in the same round, the median
};

/// Everything that is wrong with the options for `ranks` ranks.
std::vector<Problem> check(const IoBenchOptions& options, int ranks);

/// Reads windows that do not overlap, in the order of data.order=partition, once through the file. No byte of the file is cached
/// before. One row for each way, the same on every rank. Collective. The way `mpi` wants ranks that are MPI processes. Throws
/// UserError as check() says.
std::vector<IoRow> bench_io(const IoBenchOptions& options, comm::Communicator& world);
Answer answer_of(const IoBenchOptions& options, const std::vector<IoRow>& rows);

}  // namespace lockstep::lab
