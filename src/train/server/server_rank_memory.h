#pragma once

// All memory of a rank that serves, declared as train/memory/rank_memory declares that of one that trains.

#include "ops/step_scalars.h"
#include "parallel/server/server_memory.h"
#include "tensor/ledger.h"
#include "train/engine_config.h"

namespace lockstep::train {

/// How the parameters of `config` lie on its servers.
layout::KeyRanges key_ranges(const EngineConfig& config, int workers);

class ServerRankMemory {
 public:
  /// The memory of server `number` of config.servers, on `device`; `workers` ranks train.
  ServerRankMemory(const EngineConfig& config, int workers, int number, Device device = {});
  ServerRankMemory(const ServerRankMemory&) = delete;
  ServerRankMemory& operator=(const ServerRankMemory&) = delete;

  /// Bytes that commit() takes, by owner, the same before and after it; and `kernels` bytes that ops take for themselves.
  Ledger ledger(std::int64_t kernels) const;
  /// Takes the memory from `runtime`, that of weights from `window`. Once.
  void commit(Runtime& runtime, MemorySource& window);

  parallel::ServerMemory server;
  ops::WrittenScalars scalars;
  Mirror squares;  ///< [units * workers] f64

 private:
  Device device_;
  Arena parameter_arena_, gradient_arena_, optimizer_arena_;
};

}  // namespace lockstep::train
