#pragma once

// Executes a rank's list of actions on its chunks.

#include <memory>
#include <span>
#include <vector>

#include "base/span_log.h"
#include "comm/communicator.h"
#include "data/batch.h"
#include "layout/pipeline/pipeline_schedule.h"
#include "layout/pipeline/stage_map.h"
#include "model/stage.h"
#include "parallel/context/split_positions.h"

namespace lockstep::train {

/// Seconds of the passes in one run of the actions.
struct PassTimes {
  double forward_seconds = 0;   ///< the head's gradient left out
  double backward_seconds = 0;  ///< with the head's gradient
};

/// Seconds that a run of the actions spent in a chunk's passes of each kind, over all micro-batches. Waiting for messages from
/// other stages does not count. The loss is part of a forward pass.
struct ChunkSeconds {
  double forward = 0, backward = 0, input_backward = 0, weight_backward = 0;
  double all() const { return forward + backward + input_backward + weight_backward; }
};

/// How long the last run of the actions took, and each chunk's passes in it.
struct ListSeconds {
  double all = 0;  ///< from the first action to the end of the last message
  std::vector<ChunkSeconds> chunks = {};
};

/// Where messages go: ranks of `group` by chunk.
struct PipelineLinks {
  comm::Communicator* group = nullptr;  ///< null: the list has no messages
  std::vector<layout::Neighbours> chunks = {};
  int head = 0;  ///< the rank that has the head
};

/// The place of this rank among those that divide every sample's positions (parallel::split_positions).
struct ContextPlace {
  int rank = 0, ranks = 1;
  /// The positions of every rank, by micro-batch and rank, where micro-batches are divided each in its own way. A run reads them
  /// when it begins.
  std::span<const ops::Positions> parts = {};
};

/// Where a step's losses go, and what its backward pass starts from.
struct StepObjective {
  /// [micro-batches * losses_each] f64, where the head is: each micro-batch's sums of token losses are added to its own elements.
  Tensor losses;
  Tensor scale;  ///< see model::Objective
  int losses_each = 1;
  model::SampleJudge* judge = nullptr;  ///< null: losses are those of tokens
};

class PipelineRunner {
 public:
  /// `stages`: one for each chunk of `memory`. The slots of `memory` follow from `actions`. All arguments outlive the runner.
  PipelineRunner(const std::vector<layout::Action>& actions, const model::ModelMemory& memory,
                 std::span<const std::unique_ptr<model::Stage>> stages, PipelineLinks links = {}, const ContextPlace& place = {});

  const PipelineLinks& links() const { return links_; }
  const ListSeconds& seconds() const { return seconds_; }
  /// From now on passes are told to `spans`, which outlives the runner.
  void observe(SpanLog& spans) { spans_ = &spans; }
  /// One step, or its first micro-batches where fewer batches are given. `batches[m]` is micro-batch m, with the tokens and
  /// targets of the rank's own positions. `step` addresses dropout masks.
  PassTimes run(std::span<const data::Batch> batches, std::int64_t step, const StepObjective& objective);
  /// Adds the batch's token losses to `loss` [1] f64 where the head is, or gives them to the `judge`. Nothing is kept for a
  /// backward pass. Between steps. Chunks send activations as in a step: collective over the ranks with the model's chunks, each
  /// with the same batch.
  void evaluate(const data::Batch& batch, const Tensor& loss, model::SampleJudge* judge = nullptr);

 private:
  using Place = model::ModelMemory::Place;
  /// Messages under way, by chunk and slot.
  class Messages {
   public:
    explicit Messages(std::size_t chunks) : pending_(chunks) {}
    void resize(std::size_t chunk, std::size_t slots) { pending_[chunk].resize(slots); }
    comm::Request& at(const Place& place) {
      return pending_[static_cast<std::size_t>(place.chunk)][static_cast<std::size_t>(place.slot)];
    }
    void finish();

   private:
    std::vector<std::vector<comm::Request>> pending_;
  };
  model::Stage& stage(int chunk) const { return *stages_[static_cast<std::size_t>(chunk)]; }
  /// A chunk's input, after its messages have arrived.
  Tensor input(const layout::Action& action, const model::Pass& pass, const data::Batch& batch);
  Tensor output(int chunk, Microbatch microbatch, std::int64_t rows);
  Tensor gradient(int chunk, Microbatch microbatch, std::int64_t rows);
  void forward(const layout::Action& action, const model::Pass& pass, const data::Batch& batch, const StepObjective& objective,
               PassTimes& times);
  void backward(const layout::Action& action, const model::Pass& pass, const data::Batch& batch);
  void exchange(const layout::Action& action, std::int64_t rows);
  /// Whether the list has an action of this kind for the chunk.
  bool has(layout::Action::Kind kind, int chunk) const;
  void finish_messages();

  const std::vector<layout::Action>& actions_;
  const model::ModelMemory& memory_;
  std::span<const std::unique_ptr<model::Stage>> stages_;
  /// The pass's arguments that evaluation has too, without those of training alone.
  model::Pass pass_of(const data::Batch& batch, Microbatch microbatch) const;
  PipelineLinks links_;
  ContextPlace place_;
  Messages inputs_, outputs_, gradients_;
  ListSeconds seconds_;
  SpanLog* spans_ = nullptr;
  ChunkSeconds& seconds_of(int chunk) { return seconds_.chunks[static_cast<std::size_t>(chunk)]; }
};

}  // namespace lockstep::train
