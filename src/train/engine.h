#pragma once

// One rank's share of a training run: stores, stage and optimizer in their arenas, and the optimizer step over them
// (ARCHITECTURE.md, "One training step"). Knows nothing of files, logs or evaluation plans.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "arch/parameters.h"
#include "base/span_log.h"
#include "data/batch.h"
#include "device/runtime.h"
#include "layout/access_order.h"
#include "model/stage.h"
#include "ops/ops.h"
#include "parallel/context/split_positions.h"
#include "parallel/groups.h"
#include "parallel/stores.h"
#include "tensor/host_pieces.h"
#include "tensor/ledger.h"
#include "train/audit/audit.h"
#include "train/engine_config.h"
#include "train/memory/rank_memory.h"
#include "train/pipeline_runner.h"
#include "train/staged_decoder.h"
#include "train/updater.h"

namespace lockstep::train {

class Engine {
 public:
  /// Declares everything, allocates nothing. `runtime`, `ops` and `trainers` outlive the engine. `trainers`: the ranks that
  /// train, in the plan's order; the engine makes its groups of them. `make_updater`: by default replicas that update their
  /// weights together. `make_store`: by default the store that the plan asks for. Collective.
  Engine(const EngineConfig& config, Runtime& runtime, ops::Ops& ops, comm::Communicator& trainers,
         const UpdaterFactory& make_updater = make_replicas,
         const parallel::StoreFactory& make_store = parallel::make_parameter_store);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Bytes that commit() will take, by owner: the same before and after.
  Ledger ledger() const { return memory_.ledger(ops_.workspace_bytes()); }
  /// Allocates the memory, and makes files for what is offloaded. Called once. Throws UserError where a disk refuses. Returns the
  /// bytes that were taken, and what kernels have.
  Ledger commit();
  /// Where offloaded state and activations lie, in words; empty: all is in memory. After commit().
  std::string elsewhere() const { return memory_.spill.description(); }
  /// Throws, and names the first difference, unless the ranks' lists of a step's actions match (train/matched_lists). Before the
  /// first step; collective.
  void match_ranks() const;
  /// Start values from the seed.
  void initialise();
  /// Every rank takes rank 0's weights and optimizer slots, of a run that has done `step` steps; a hash checks them. Collective;
  /// after initialise() and after loading. Throws SystemError when the ranks differ afterwards.
  void broadcast_state(std::int64_t step = 0) {
    state().distribute(step);
    check_tensor_ranks();
  }
  /// After every rank has set its state by itself: throws SystemError unless ranks with the same state have the same bits.
  /// Collective.
  void check_state();

  /// One optimizer step: forward and backward of `batches`, reduction, norm, clipping, update. `step` counts from 0. Throws
  /// SystemError where an audit of the step finds a rank that computes wrongly.
  StepResult step(std::span<const data::Batch> batches, std::int64_t target_count, std::int64_t step, double learning_rate);
  /// Where steps are audited: throws SystemError unless ranks that keep the same weights and slots have the same bits after
  /// `steps` steps. Collective.
  void audit_state(std::int64_t steps) {
    if (audit_) audit_->demand_alike(state(), steps - 1);
  }
  /// Sum of the losses of a batch's tokens, or of its groups of samples, with the current weights. Ranks without the head return
  /// 0. Collective over a pipeline's ranks, each with the same batch.
  double evaluate(const data::Batch& batch);
  /// This rank's sums of the figures over the groups of samples of the last batch or step. None where losses are those of tokens.
  std::optional<SampleFigures> figures();
  /// Where losses are those of whole samples: out [B] = the log-probabilities of the samples' targets. One of the ranks that have
  /// the samples gets them, the others 0. Collective as evaluate().
  void log_probabilities(const data::Batch& batch, std::span<double> out);

  /// From now on a step's passes, its update and its moves to a disk are told to `spans`, which outlives the engine. Ops and
  /// communicators have observers of their own. `spans` uses the engine's memory for config().traced_steps steps. After commit().
  void observe(SpanLog& spans);
  /// How long the last step's passes and messages took.
  const ListSeconds& list_seconds() const { return runner_.seconds(); }

  const EngineConfig& config() const { return config_; }
  const parallel::Groups& groups() const { return groups_; }
  /// Samples of a step, over all ranks.
  std::int64_t global_batch() const { return config_.samples * config_.plan.microbatches * config_.plan.dp; }
  const model::Context& context() const { return training_; }
  /// The model with its current weights, for reading. Each tensor rank reads all rows, also where training divides them.
  ModelShare share() const { return {reading_, memory_.part.chunks, runner_.links()}; }

  /// What this rank keeps of the run; after commit().
  parallel::TrainingState& state() { return updater_->state(); }
  /// Copies state between device and host; after commit().
  const HostPieces& pieces() const { return pieces_; }
  /// The host's memory for saves that are written while the run goes on; empty unless config().saves_beside.
  const Tensor& copies() const { return memory_.copies; }
  /// How the ranks come together between steps.
  RunControl& control() { return updater_->control(); }
  /// To be called after weights were written from outside (a checkpoint).
  void weights_changed() { parallel::publish(state(), ops_.elementwise()); }

 private:
  static std::unique_ptr<Updater> make_replicas(const UpdaterParts& parts);
  std::unique_ptr<parallel::AuditedGradients> make_audited();
  std::vector<layout::Access> accesses(const std::vector<layout::Action>& actions) const;
  /// Throws unless tensor ranks hold the same bits of undivided parameters. Nothing where state is cut over replicas. Collective.
  void check_tensor_ranks();
  /// The batches, their tokens and targets where kernels read them; until the next call.
  std::span<const data::Batch> bring(std::span<const data::Batch> batches);
  /// Copies the rank's own positions of each sample of `from` into `to`.
  void bring(const Tensor& to, const Tensor& from, const ops::Positions& own, const data::Batch& batch);
  /// The positions that this rank has of each sample of micro-batch m.
  ops::Positions own_positions(const data::Batch& batch, std::size_t m) const;
  /// to [samples * positions] i32: where the document of each position of the batch begins.
  void find_starts(const Mirror& to, const data::Batch& batch);
  void clear_losses();
  /// Computes the first micro-batch of another replica; its gradients go to the audit alone. `own`: this replica's. Collective.
  void do_again(const data::Batch& own, std::int64_t step, bool second);
  /// Throws unless each audited micro-batch gave the same gradient twice. Collective.
  void demand_alike(const data::Batch& own, std::int64_t step);
  /// The forward and backward passes of a step.
  PassTimes passes(std::span<const data::Batch> batches, std::int64_t step);
  StepObjective objective_of_step();
  parallel::GradientStore& gradients() { return audited_ ? *audited_ : updater_->gradients(); }
  double loss_sum();
  /// The judged samples of the step; none where losses are those of tokens.
  std::optional<StepJudge::Judged> judged();
  /// Whether this rank reports the figures of samples that are judged whole.
  bool tells_samples() const { return memory_.part.head && groups_.at().cp == 0; }
  void evaluate_samples(const data::Batch& batch);

  /// What contexts for training and for reading have in common. The boundary, the attention and the sums are each context's own.
  model::Context context_of(parallel::Boundary& boundary, parallel::ContextAttention& attention, model::Sums& sums);

  const EngineConfig config_;
  Runtime& runtime_;
  ops::Ops& ops_;
  const parallel::Groups groups_;
  std::vector<arch::UnitSpec> table_;
  RankMemory memory_;
  HostPieces pieces_;
  std::unique_ptr<parallel::ParameterStore> parameters_;
  std::unique_ptr<Updater> updater_;
  std::unique_ptr<parallel::AuditedGradients> audited_;  ///< null: nothing is audited
  std::optional<Audit> audit_;
  std::unique_ptr<parallel::Boundary> boundary_, reading_boundary_;
  std::unique_ptr<parallel::ContextAttention> reading_attention_;
  std::unique_ptr<model::Sums> reading_sums_;
  model::Context training_, reading_;
  std::vector<std::unique_ptr<model::Stage>> stages_;
  parallel::DocumentSplit document_split_;
  std::vector<ops::Positions> parts_;  ///< ContextPlace::parts; empty: all micro-batches are divided alike
  PipelineRunner runner_;
  std::optional<StepJudge> judge_;                   ///< where samples are judged whole
  std::vector<layout::Access> order_, order_again_;  ///< of a step, and of its first micro-batch alone
  std::vector<data::Batch> brought_;
  const bool alike_each_step_;             ///< whether passes may be repeated (ops::Ops::repeat)
  std::unique_ptr<KeptWork> kept_passes_;  ///< of a step
  SpanLog* spans_ = nullptr;
};

}  // namespace lockstep::train
