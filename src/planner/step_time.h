#pragma once

// Seconds of a layout's whole step, by formulas that are fast enough for every layout. The simulation of a pipeline's lists is
// more exact (layout/pipeline/simulation).

#include <optional>
#include <vector>

#include "layout/pipeline/simulation.h"
#include "planner/block_work.h"
#include "planner/stage_shares.h"

namespace lockstep::planner {

/// The training that is planned: model, positions, machine and system.
struct Work {
  Work(const arch::ModelConfig& of, std::int64_t positions_of_a_sample, Machine on, System by = own_system);
  arch::ModelConfig model;
  std::int64_t positions;
  Machine machine;
  System system;
  double parameters;  ///< of the model
};

/// A layout with its micro-batch.
struct Candidate {
  layout::ParallelPlan plan;
  std::int64_t samples = 1;  ///< of a micro-batch, on each data-parallel rank
};

/// Seconds of the slowest rank's parts, which add up to the step's.
struct StepTime {
  double compute = 0;          ///< products and passes over memory
  double recompute = 0;        ///< what blocks compute again for their backward pass
  double tensor_parallel = 0;  ///< waiting for ranks that divide layers or positions
  double messages = 0;         ///< a pipeline's messages, where passes do not go on meanwhile
  double bubble = 0;           ///< waiting in a pipeline
  double gather = 0;           ///< waiting for weights that are gathered for each micro-batch, or brought from the host
  double activations = 0;      ///< waiting for offloaded activations, on their way there and back
  double replicas = 0;         ///< waiting for sums of gradients, and for new weights
  double optimizer = 0;        ///< the update; the way of offloaded state there and back
  double total() const {
    return compute + recompute + tensor_parallel + messages + bubble + gather + activations + replicas + optimizer;
  }
};

/// Seconds of each stage of the pipeline, `message` included. plan.split says which blocks a stage has; empty: they are cut
/// evenly.
std::vector<layout::PassSeconds> stage_seconds(const Work& work, const Candidate& candidate);

/// Seconds of the end of a step: everything but passes and bubble. Sums of gradients hide behind `last_backward`, the last
/// micro-batch's seconds. New weights hide behind `first_forward`.
struct StepEnd {
  double replicas, optimizer;
};
StepEnd step_end(const Work& work, const Candidate& candidate, double first_forward, double last_backward);

StepTime step_time(const Work& work, const Candidate& candidate);

/// Computes step_time() of many layouts, one after another. Parts that neighbours have in common are computed once.
class StepTimer {
 public:
  explicit StepTimer(const Work& work) : work_(work) {}  ///< `work` outlives the timer
  StepTime of(const Candidate& candidate);

 private:
  struct Passes {
    bool sequence;
    layout::Recompute recompute;
    BlockWork block;
    HeadWork head;
  };
  const Passes& passes(const Candidate& candidate);
  const StageShares& shares(const layout::ParallelPlan& plan);

  const Work& work_;
  Candidate of_passes_;  ///< `passes_` belong to its samples, degrees and way of attending
  std::vector<Passes> passes_;
  layout::ParallelPlan of_shares_;
  std::optional<StageShares> shares_;
};

}  // namespace lockstep::planner
