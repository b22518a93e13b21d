#pragma once

// What this rank keeps of a run, range by range: weights, gradient and what the optimizer keeps beside them. The optimizer, the
// norm, start values and checkpoints go through all of it by for_each(). They cannot tell whether a range lies where it is used
// or was brought there for the visit.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "layout/unit.h"
#include "ops/elementwise.h"
#include "tensor/tensor.h"

namespace lockstep::parallel {

/// A range of a unit. Tensors are flat, have range.count elements, and are valid during the visit alone. A tensor is empty when
/// this rank does not have it or when it was not asked for.
struct StateRange {
  UnitIndex unit;
  layout::Range range;                 ///< of the unit's elements
  Tensor master = {};                  ///< what is updated: a copy in f32, or the weights themselves, as where nothing is trained
  Tensor published = {};               ///< what the model reads; the same memory as `master` where there is no copy
  Tensor low = {};                     ///< u16; with `published` the halves of an empty `master` (ops::Elementwise::join)
  Tensor gradient = {};                ///< f32, reduced; of the last step
  std::span<const Tensor> slots = {};  ///< of the optimizer, in the order of TrainingState::slots()
  /// Several ranks may have these elements. This one answers for those in `own`: it writes them to a file and counts them in a
  /// norm. It answers for the slots of those in `own_slots`. Both are parts of `range`.
  layout::Range own = {}, own_slots = {};
};

/// Learns what visits are about to change.
class ChangeWatcher {
 public:
  virtual ~ChangeWatcher() = default;
  /// Called for every range of a visit with changes, before the visit's body gets it.
  virtual void before_change(const StateRange& range) = 0;
};

class TrainingState {
 public:
  virtual ~TrainingState() = default;
  virtual const std::vector<layout::Unit>& units() const = 0;
  /// Names of what the optimizer keeps for each weight: "exp_avg".
  virtual const std::vector<std::string>& slots() const = 0;
  /// The most ranges of a unit on this rank, in visits of gradients alone; the same on all ranks.
  virtual int ranges_of_unit() const { return 1; }
  /// Each unit has an even share for each of the ranks with the same parameters. This is the share that rank `rank` of them
  /// answers for.
  virtual int share_of(int rank) const { return rank; }
  /// The type of masters. Units that are not trained have the type of the published weights.
  virtual DType type() const = 0;
  /// The type of slots.
  virtual DType slot_type() const { return type(); }
  /// Updates that made the weights and slots what they are. Steps that were left out do not count.
  std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t updates) { updates_ = updates; }

  /// What a visit needs, so that nothing else is brought, and what it writes, so that nothing else is written back.
  struct Use {
    bool weights = true;
    bool gradients = false;
    bool slots = false;
    bool changes = false;      ///< the visit changes the weights, published ones too, and the slots that were asked for
    bool halves = false;       ///< a master copy that is kept in halves may come as two halves
    bool slots_alone = false;  ///< with `changes`: only slots change, no weight
  };
  /// Calls body(const StateRange&) for every range of this rank, in the order of units and within a unit of elements. Visits with
  /// gradients leave out units that are not trained. Such units have no slots.
  template <class Body>
  void for_each(const Use& use, Body&& body) {
    auto told = [&](const StateRange& range) {
      if (use.changes && watcher_ != nullptr) watcher_->before_change(range);
      body(range);
    };
    visit(use, [](void* b, const StateRange& range) { (*static_cast<decltype(told)*>(b))(range); }, &told);
  }
  /// Whether the weights and slots that a visit of this use shows lie there between visits too.
  virtual bool stays(const Use& /*use*/) const { return true; }
  /// `watcher` is told of changes from now on. It lives until the next call; null: there is none.
  void watch(ChangeWatcher* watcher) { watcher_ = watcher; }

  /// Rank 0's weights, slots and number of updates become those of all ranks. They are those of a run that has done `step` steps.
  /// Throws SystemError when the ranks' hashes differ afterwards. Collective.
  virtual void distribute(std::int64_t step) = 0;
  /// Every rank has set the weights and slots that it answers for: copies of them on other ranks follow. Collective.
  virtual void gather() = 0;
  /// Throws SystemError on every rank unless what several ranks hold has the same bits on all of them. Collective.
  virtual void check_copies() = 0;
  /// The newest weights, slots and number of updates are here, to be read for a checkpoint; no rank goes on before. Collective.
  virtual void collect() = 0;

 protected:
  using Call = void (*)(void* body, const StateRange& range);
  bool watched() const { return watcher_ != nullptr; }

 private:
  virtual void visit(const Use& use, Call call, void* body) = 0;

  ChangeWatcher* watcher_ = nullptr;
  std::int64_t updates_ = 0;
};

/// After masters were written: brings what the model reads up to date.
void publish(TrainingState& state, ops::Elementwise& elementwise);

}  // namespace lockstep::parallel
