#pragma once

// Finds ranks that compute wrongly (train.audit). Every so many steps each replica computes another replica's first micro-batch
// again. Both gradients are compared bit for bit before ranks add them up. State that several ranks keep is compared, too.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/batch.h"
#include "parallel/groups.h"
#include "parallel/training_state.h"
#include "train/audit/audit_memory.h"
#include "train/engine_config.h"

namespace lockstep::train {

/// Why such a run cannot be audited, in words that follow "train.audit = N: " and "train.audit=0, or "; none: it can be.
std::optional<Problem> audit_obstacle(const EngineConfig& config);

class Audit {
 public:
  /// What is audited; all outlive this.
  struct Parts {
    const EngineConfig& config;
    const AuditMemory& memory;
    const parallel::Groups& groups;
    parallel::AuditedGradients& gradients;
  };
  explicit Audit(const Parts& parts);

  /// Steps count from 0; the last of each config.audit is audited.
  bool due(std::int64_t step) const { return (step + 1) % parts_.config.audit == 0; }
  /// Throws SystemError on every rank unless ranks that keep the same weights and slots have the same bits. Collective.
  void demand_alike(parallel::TrainingState& state, std::int64_t step);
  /// The first micro-batch of another replica, which is drawn; of a third one the `second` time. It is done next. Collective.
  const data::Batch& other(const data::Batch& own, std::int64_t step, bool second);
  /// It was done.
  void done_again(bool second);
  /// The step's own passes are over: whether all replicas made the same of what was done twice. Collective.
  bool alike(std::int64_t step);
  /// They did not; where there are three replicas, each micro-batch was done a third time. Throws SystemError, which names who is
  /// wrong, on every rank. Collective.
  [[noreturn]] void fail(std::int64_t step);

 private:
  int replicas() const { return parts_.groups.plan().dp; }
  /// How far the replica that does a micro-batch again is from its own.
  int shift(bool second) const;
  /// The rank at this place of the replica that is `by` further.
  int shifted(int rank, int by) const;
  /// Gives `mine` to the replica that is `by` further, and gets into `place` that of the one so far behind. Collective.
  void exchange(const Tensor& place, const Tensor& mine, int by) const;
  std::string since() const;

  Parts parts_;
  data::Batch other_;
  int drawn_ = 1;
  std::vector<std::int64_t> received_;
  std::int64_t own_ = 0, again_ = 0, third_ = 0;  ///< sums over all tensors: of the own passes, and of what was done again
  std::string found_;                             ///< the first tensor that differs; empty: none
  std::optional<std::int64_t> passed_;            ///< the last step that was audited
};

}  // namespace lockstep::train
