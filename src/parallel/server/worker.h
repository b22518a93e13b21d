#pragma once

// A worker's side of the parameter servers. The worker sends each server its part of every unit and takes the new weights.

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "layout/key_ranges.h"
#include "parallel/server/messages.h"

namespace lockstep::parallel {

class Worker {
 public:
  /// The first ranks of `world` are the workers, the others the servers. `world` outlives this.
  Worker(comm::Communicator& world, layout::KeyRanges ranges);

  const layout::KeyRanges& ranges() const { return ranges_; }

  /// Begins the push of a step. `step` steps were done before it.
  void begin_push(std::int64_t step);
  /// Pushes a whole unit. Units come in the order of ranges(). `flat` stays untouched until finish_push().
  void push(UnitIndex unit, const Tensor& flat);
  /// Pushes a tied matrix's rows [V, C] after all units, where these are kept apart. `table` stays untouched until finish_push().
  void push_rows(const Tensor& table);
  /// Blocks until every server has answered and the new weights are in `weights`, one flat tensor a unit.
  Answer finish_push(const Figures& figures, std::span<const Tensor> weights);

  /// Everything that servers keep of a unit, whole.
  struct UnitState {
    Tensor weights;
    std::span<const Tensor> slots;  ///< what the optimizer keeps
  };
  void pull(std::span<const Tensor> weights);
  /// Gives the servers the state of a run that has done `step` steps. `updates` updates made this state.
  void load(std::int64_t step, std::int64_t updates, std::span<const UnitState> units);
  /// Fills the slots of `units`. Returns how many updates made them what they are.
  std::int64_t fetch_slots(std::span<const UnitState> units);
  /// Tells the servers that this worker will not call again. Called once, at the end.
  void leave();

 private:
  void call(Errand errand, std::int64_t step = 0, std::int64_t updates = 0);
  int rank_of(int server) const { return ranges_.workers() + server; }
  void send(const Tensor& flat, layout::Range range, int server);
  void receive(const Tensor& flat, layout::Range range, int server);
  void receive_weights(int server, std::span<const Tensor> weights);
  void finish();

  comm::Communicator& world_;
  layout::KeyRanges ranges_;
  Call call_;
  Figures figures_;
  std::vector<Answer> answers_;
  std::vector<comm::Request> requests_;
};

}  // namespace lockstep::parallel
