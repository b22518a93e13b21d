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

/// Why a run of this configuration cannot be audited; none: it can be. The texts of the Problem follow "train.audit = N: " and
/// "train.audit=0, or ".
std::optional<Problem> audit_obstacle(const EngineConfig& config);

class Audit {
 public:
  /// What an audit works with; all members outlive it.
  struct Parts {
    const EngineConfig& config;
    const AuditMemory& memory;
    const parallel::Groups& groups;
    parallel::AuditedGradients& gradients;
  };
  explicit Audit(const Parts& parts);

  /// The last step of every config.audit is audited. `step` counts from 0.
  bool due(std::int64_t step) const { return (step + 1) % parts_.config.audit == 0; }
  /// Throws SystemError on every rank unless ranks that keep the same weights and slots have the same bits. Collective.
  void demand_alike(parallel::TrainingState& state, std::int64_t step);
  /// Exchanges first micro-batches with a replica that is drawn, or the `second` time with a third replica. Returns the
  /// micro-batch that this rank computes again next. Collective.
  const data::Batch& other(const data::Batch& own, std::int64_t step, bool second);
  /// The passes over other()'s micro-batch are done.
  void done_again(bool second);
  /// After the step's own passes: whether both computations of each audited micro-batch gave the same gradient. Collective.
  bool alike(std::int64_t step);
  /// After alike() was false. Where there are three replicas, each audited micro-batch was computed a third time before. Throws a
  /// SystemError that names the wrong ranks, on every rank. Collective.
  [[noreturn]] void fail(std::int64_t step);

 private:
  int replicas() const { return parts_.groups.plan().dp; }
  /// The replica that computes a micro-batch again is so many replicas further than its owner.
  int shift(bool second) const;
  /// The rank with the place of `rank` in the replica that is `by` further.
  int shifted(int rank, int by) const;
  /// Sends `mine` to the replica that is `by` further. Receives into `place` from the replica that is `by` before. Collective.
  void exchange(const Tensor& place, const Tensor& mine, int by) const;
  std::string since() const;

  Parts parts_;
  data::Batch other_;
  int drawn_ = 1;
  std::vector<std::int64_t> received_;
  std::int64_t own_ = 0, again_ = 0, third_ = 0;  ///< checksums of gradients: own passes, another's, a third one's
  std::string found_;                             ///< the first tensor that differs; empty: none
  std::optional<std::int64_t> passed_;            ///< the last step that was audited
};

}  // namespace lockstep::train
