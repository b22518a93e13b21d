#pragma once

// All memory of a parameter server's rank. train/memory/rank_memory declares that of a rank that trains.

#include "ops/step_scalars.h"
#include "parallel/server/server_memory.h"
#include "tensor/ledger.h"
#include "train/engine_config.h"

namespace lockstep::train {

/// The ranges of the parameters of `config` that each of its servers keeps.
layout::KeyRanges key_ranges(const EngineConfig& config, int workers);

class ServerRankMemory {
 public:
  /// The memory of server `number` of config.servers, on `device`; `workers` ranks train.
  ServerRankMemory(const EngineConfig& config, int workers, int number, Device device = {});
  ServerRankMemory(const ServerRankMemory&) = delete;
  ServerRankMemory& operator=(const ServerRankMemory&) = delete;

  /// Bytes that commit() takes, by owner, the same before and after it. `kernels` bytes, which ops take for themselves, are
  /// added.
  Ledger ledger(std::int64_t kernels) const;
  /// Takes the memory of weights from `window`, and the rest from `runtime`. Once.
  void commit(Runtime& runtime, MemorySource& window);

  parallel::ServerMemory server;
  ops::WrittenScalars scalars;
  Mirror squares;  ///< [units * workers] f64

 private:
  Device device_;
  Arena parameter_arena_, gradient_arena_, optimizer_arena_;
};

}  // namespace lockstep::train
