#pragma once

// A run's folder belongs to one run, which alone writes into it.

#include <memory>
#include <string>
#include <vector>

#include "app/folder/run_lock.h"
#include "app/settings/run_config.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/communicator.h"
#include "io/held_folder.h"

namespace lockstep::app {

/// Why a new run cannot have its folder, and what is wrong with the files that would stop any run or make it save. Nothing is
/// changed.
std::vector<Problem> check_run_files(const RunConfig& config);

class RunFolder {
 public:
  /// Rank 0 takes the folder's lock and settles train.init_from=auto; then `config` says resume or scratch on all ranks. Throws
  /// UserError, on all, when a new run would start where one is, or a rank sees another folder. Nothing else in the folder
  /// changes. Collective.
  RunFolder(RunConfig& config, const io::Path& folder, comm::Communicator& world, Log& log);

  const io::Path& path() const { return path_; }
  /// Readies metrics.jsonl, samples.jsonl and wandb-history.jsonl for what will be appended. A resumed run's files lose a torn
  /// last line. A new run keeps older ones as metrics.N.jsonl. For rank 0.
  void prepare_metrics(bool resumed, Log& log) const;
  /// Where the trace of this start goes: trace.json, and trace.2.json, trace.3.json, ... where earlier ones are.
  io::Path trace_file() const;
  /// The folder as it was when the run began.
  const io::HeldFolder& held() const { return *held_; }
  /// Throws UserError when another run has taken the folder over. For rank 0.
  void demand(Log& log) const;

 private:
  void prepare_lines(const io::Path& path, bool resumed, Log& log) const;
  io::Path path_;
  std::unique_ptr<io::HeldFolder> held_;
  std::unique_ptr<RunLock> lock_;  // rank 0's
};

}  // namespace lockstep::app
