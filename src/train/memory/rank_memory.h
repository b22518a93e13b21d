#pragma once

// All memory that a rank trains in, declared from the configuration and the rank's coordinates. Nothing computes or communicates,
// so the memory of any rank of any plan can be counted. An engine commits the same declarations.

#include "model/stage_memory.h"
#include "ops/step_scalars.h"
#include "parallel/parameter_memory.h"
#include "tensor/ledger.h"
#include "train/audit/audit_memory.h"
#include "train/memory/rank_part.h"
#include "train/memory/updater_memory.h"
#include "train/objective/step_judge.h"

namespace lockstep::train {

class RankMemory {
 public:
  /// The memory of the rank at `at` of config.plan, on `device`. Throws BrokenRule for a plan that rank_part() refuses.
  RankMemory(const EngineConfig& config, const layout::Coordinates& at, Device device = {});
  RankMemory(const RankMemory&) = delete;
  RankMemory& operator=(const RankMemory&) = delete;

  /// Bytes that commit() takes, by owner, the same before and after it. `kernels` bytes, which ops take for themselves, are
  /// added.
  Ledger ledger(std::int64_t kernels) const;
  /// Takes the memory from `runtime`. Three kinds come from `window`: gradients, weights which ranks get from each other, and
  /// temporaries where boundaries carry some of them. Once. Returns what was taken.
  Ledger commit(Runtime& runtime, MemorySource& window);
  const RankPart part;
  parallel::ParameterMemory parameters;
  UpdaterMemory updater;
  std::unique_ptr<parallel::ContextAttention> attention;  ///< has its own temporaries
  std::unique_ptr<model::Sums> sums;
  model::ModelMemory model;
  Mirror angles;  ///< of rotary positions: model/attention/rotation
  ops::WrittenScalars scalars;
  Tensor tokens, targets;   ///< [own rows * micro-batches] i32, where the embedding and the head are; Objective says which rows
  Mirror starts;            ///< [samples * positions * micro-batches] i32: the start of each position's document
  Mirror windows;           ///< the same shape: the start of each position's window
  Mirror losses;            ///< [micro-batches * sums->sample_ranges()] f64, where the head is: sums of token losses
  JudgeMemory judged;       ///< where the head is and samples are judged whole
  Tensor drawn;             ///< f32, where start values are rounded; shares its bytes with temporaries
  Tensor pieces;            ///< HostPieces' buffer
  Tensor copies;            ///< for saves that are written while the run goes on
  std::int64_t shared = 0;  ///< bytes of hosts' copies in shared memory (train/saving/copies); in ledgers
  Tensor spans;             ///< u8, the spans of a trace
  AuditMemory audit;

 private:
  void enter_shared(Ledger& ledger) const;
  /// Bytes of checkpoints that this rank writes, approximately.
  std::int64_t saved_bytes(const EngineConfig& config) const;

  Device device_;
  Arena parameter_arena_, gradient_arena_, optimizer_arena_, master_arena_, offload_arena_, activation_arena_, workspace_arena_;
  Arena pinned_arena_, host_arena_;  ///< in pinned memory
  Arena trace_arena_;                ///< in the host's memory

 public:
  /// Offloaded state and activations, to be opened by who moves them. Last member: it ends first, for moves under way use the
  /// memory.
  parallel::Spill spill;
};

}  // namespace lockstep::train
