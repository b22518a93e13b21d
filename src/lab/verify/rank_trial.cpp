#include "lab/verify/rank_trial.h"

#include <algorithm>
#include <iterator>

#include "comm/thread/thread_world.h"
#include "device/choose_device.h"
#include "device/runtime.h"
#include "io/temporary_folder.h"
#include "ops/open_ops.h"
#include "train/replicas.h"
#include "train/server/server_side.h"
#include "train/server/worker_side.h"

namespace lockstep::lab {
namespace {

constexpr double patience = 60;  // seconds that a collective may wait for a rank

/// A device's tensor in host memory.
class HostCopy {
 public:
  HostCopy(Stream& stream, const Tensor& of) : stream_(stream), of_(of) {
    if (!of || of.device.is_host()) return;
    memory_ = host_memory().allocate(of.bytes());
    stream.copy(memory_.data(), of.data, of.bytes());
    stream.synchronize();
  }
  Tensor tensor() const {
    Tensor copy = of_;
    if (memory_.data() == nullptr) return copy;
    copy.data = memory_.data();
    copy.device = {};
    return copy;
  }
  void write_back() {
    if (memory_.data() == nullptr) return;
    stream_.copy(of_.data, memory_.data(), of_.bytes());
    stream_.synchronize();
  }

 private:
  Stream& stream_;
  Tensor of_;
  Memory memory_;
};

/// A state whose visits see copies in host memory.
class HostState final : public parallel::TrainingState {
 public:
  HostState(parallel::TrainingState& state, Stream& stream) : state_(state), stream_(stream) {}
  const std::vector<layout::Unit>& units() const override { return state_.units(); }
  const std::vector<std::string>& slots() const override { return state_.slots(); }
  DType type() const override { return state_.type(); }
  DType slot_type() const override { return state_.slot_type(); }
  void distribute(std::int64_t step) override { state_.distribute(step); }
  void gather() override { state_.gather(); }
  void check_copies() override { state_.check_copies(); }
  void collect() override { state_.collect(); }

 private:
  void visit(const Use& use, Call call, void* body) override {
    state_.for_each(use, [&](const parallel::StateRange& range) {
      std::vector<HostCopy> copies;
      const auto bring = [&](const Tensor& tensor) { return copies.emplace_back(stream_, tensor).tensor(); };
      parallel::StateRange here = range;
      here.gradient = bring(range.gradient);
      here.master = bring(range.master);
      here.published = range.published.data == range.master.data ? here.master : bring(range.published);
      std::vector<Tensor> slots;
      for (const Tensor& slot : range.slots) slots.push_back(bring(slot));
      here.slots = slots;
      call(body, here);
      // Observers may change a gradient in any visit.
      const auto last = use.changes ? copies.end() : std::next(copies.begin());
      for (auto copy = copies.begin(); copy != last; ++copy) copy->write_back();
    });
  }

  parallel::TrainingState& state_;
  Stream& stream_;
};

/// The plan's store, whose leases the observer sees.
class WatchedStore final : public parallel::ParameterStore {
 public:
  WatchedStore(std::unique_ptr<parallel::ParameterStore> store, Stream& stream, RankObserver& observer)
      : store_(std::move(store)), stream_(stream), observer_(observer) {}
  const std::vector<layout::Unit>& units() const override { return store_->units(); }
  DType dtype() const override { return store_->dtype(); }
  DType owned_dtype() const override { return store_->owned_dtype(); }
  parallel::Lease lease(const layout::Access& access) override {
    parallel::Lease lease = store_->lease(access);  // which ends at that store
    observer_.reads(units()[static_cast<std::size_t>(access.part.unit.value)], access.part,
                    HostCopy(stream_, lease.flat()).tensor());
    return lease;
  }
  void begin(const std::vector<layout::Access>& order) override { store_->begin(order); }
  Shard shard(UnitIndex unit) override { return store_->shard(unit); }
  void updated(Changed what) override { store_->updated(what); }
  void add_packed(UnitIndex unit, const parallel::PackedMatrix& matrix) override { store_->add_packed(unit, matrix); }

 private:
  void release(const layout::Access& /*access*/) noexcept override {}
  std::unique_ptr<parallel::ParameterStore> store_;
  Stream& stream_;
  RankObserver& observer_;
};

/// Replicas that the observer sees between the two halves of an update.
class WatchedReplicas final : public train::Updater {
 public:
  WatchedReplicas(const train::UpdaterParts& parts, RankObserver& observer)
      : replicas_(parts), seen_(replicas_.state(), parts.ops.stream()), observer_(observer) {}
  parallel::GradientStore& gradients() override { return replicas_.gradients(); }
  parallel::TrainingState& state() override { return replicas_.state(); }
  train::RunControl& control() override { return replicas_.control(); }
  std::int64_t begin(std::int64_t step, std::int64_t targets) override { return replicas_.begin(step, targets); }
  void finish(const Passed& passed, const ops::WrittenScalars& scalars, train::StepResult& result) override {
    replicas_.reduce(passed, result);
    observer_.reduced(static_cast<int>(passed.step), &seen_, result);
    replicas_.update(passed, scalars, result);
  }

 private:
  train::Replicas replicas_;
  HostState seen_;
  RankObserver& observer_;
};

/// A worker of parameter servers that the observer sees.
class WatchedWorker final : public train::Updater {
 public:
  WatchedWorker(std::unique_ptr<train::Updater> worker, RankObserver& observer)
      : worker_(std::move(worker)), observer_(observer) {}
  parallel::GradientStore& gradients() override { return worker_->gradients(); }
  parallel::TrainingState& state() override { return worker_->state(); }
  train::RunControl& control() override { return worker_->control(); }
  std::int64_t begin(std::int64_t step, std::int64_t targets) override { return worker_->begin(step, targets); }
  void finish(const Passed& passed, const ops::WrittenScalars& scalars, train::StepResult& result) override {
    worker_->finish(passed, scalars, result);
    observer_.reduced(static_cast<int>(passed.step), nullptr, result);
  }

 private:
  std::unique_ptr<train::Updater> worker_;
  RankObserver& observer_;
};

/// What a rank computes with.
struct RankParts {
  RankParts(const Trial& trial, comm::Communicator& world)
      : runtime(open_runtime(choose_device(name_of(trial.device), world.rank()), {.threads = 1})),
        stream(runtime->make_stream()),
        ops(make_ops(trial, world.rank())) {
    world.attach(*stream, runtime->team());
  }
  std::unique_ptr<ops::Ops> make_ops(const Trial& trial, int rank) const {
    std::unique_ptr<ops::Ops> usual = ops::make_ops(*runtime, *stream, {});
    return trial.parts.ops ? trial.parts.ops(std::move(usual), rank) : std::move(usual);
  }
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<ops::Ops> ops;
};

class RankTrial {
 public:
  RankTrial(const Trial& trial, comm::Communicator& world, RankObserver& observer)
      : trial_(trial),
        observer_(observer),
        parts_(trial, world),
        workers_(served() ? world.split(0, world.rank()) : nullptr),
        engine_(
            config_of(trial.model, trial.layout), *parts_.runtime, *parts_.ops, workers_ ? *workers_ : world,
            [this, &world](const train::UpdaterParts& parts) -> std::unique_ptr<train::Updater> {
              if (served()) return std::make_unique<WatchedWorker>(train::make_worker_updater(parts, world), observer_);
              return std::make_unique<WatchedReplicas>(parts, observer_);
            },
            [this](const parallel::ParameterMemory& memory, const parallel::Groups& groups, Stream& stream) {
              return std::make_unique<WatchedStore>(trial_.parts.store(memory, groups, stream), stream, observer_);
            }),
        state_(engine_.state(), *parts_.stream) {}

  void train() {
    engine_.commit();
    engine_.initialise();
    observer_.drawn(state_);
    changed();
    observer_.started(state_);
    for (int step = 0; step < trial_.steps; ++step) {
      if (observer_.before(step, state_)) changed();
      VerifyBatches batches(trial_.model, place(step));
      if (trial_.parts.batches) trial_.parts.batches(groups().all().rank(), batches.all());
      engine_.step(batches.all(), batches.targets(), step, trial_.model.learning_rate);
      if (served()) engine_.state().collect();  // the slots
      observer_.updated(step, state_);
    }
    VerifyBatches batches(trial_.model, {.step = trial_.steps});
    double loss = engine_.evaluate(batches.all().front());
    // Each rank with a head has the loss of its own positions.
    for (const layout::GroupRole role : {layout::GroupRole::context, layout::GroupRole::pipeline})
      groups().of(role).host().all_reduce(view(std::span(&loss, 1), Shape{1}), comm::Reduction::sum).wait();
    observer_.evaluated(loss);
    engine_.control().leave();
  }

 private:
  const parallel::Groups& groups() const { return engine_.groups(); }
  bool served() const { return trial_.layout.servers > 0; }
  // Copies of weights that this rank has not, or not in this type.
  void changed() {
    if (served()) {
      engine_.state().distribute(0);
    } else if (groups().all().size() > 1) {
      engine_.state().gather();
    }
    engine_.weights_changed();
  }
  // Data-parallel ranks have neighbouring micro-batches.
  VerifyBatches::Place place(int step) const {
    const int each = trial_.layout.plan.microbatches;
    return {.step = step, .first = groups().at().dp * each, .count = each, .all = trial_.layout.microbatches()};
  }

  const Trial& trial_;
  RankObserver& observer_;
  RankParts parts_;
  std::unique_ptr<comm::Communicator> workers_;  ///< null: all ranks train
  train::Engine engine_;
  HostState state_;  ///< the engine's
};

/// Runs a parameter server's rank.
void serve(const Trial& trial, comm::Communicator& world) {
  const RankParts parts(trial, world);
  const std::unique_ptr<comm::Communicator> servers = world.split(1, world.rank());
  train::EngineConfig config = config_of(trial.model, trial.layout);
  config.plan = {.microbatches = trial.layout.plan.microbatches};
  train::ServerSide server(config, {}, *parts.runtime, *parts.ops, world, *servers);
  server.commit();
  server.run();
}

}  // namespace

void run(const Trial& trial, const MakeObserver& make_observer) {
  comm::run_ranks(trial.layout.ranks(), {.timeout = patience}, [&](comm::Communicator& world) {
    const std::unique_ptr<comm::Communicator> around = trial.parts.world ? trial.parts.world(world) : nullptr;
    if (world.rank() >= trial.layout.plan.ranks()) return serve(trial, around ? *around : world);
    const std::unique_ptr<RankObserver> observer = make_observer(world.rank());
    RankTrial(trial, around ? *around : world, *observer).train();
  });
}

train::EngineConfig config_of(const VerifyModel& model, const Layout& layout) {
  train::TrainedModel trained{.model = model.config,
                              .weights = model.weights,
                              .optimizer = model.optimizer,
                              .grad_clip = model.grad_clip,
                              .samples = model.samples,
                              .positions = model.positions,
                              .seed = model.seed,
                              .objective = model.objective};
  if (layout.documents) trained.document_end = VerifyBatches::document_end;
  const layout::ParallelPlan& plan = layout.plan;
  const auto tiers = {plan.optimizer.tier, plan.parameters.tier, plan.activations};
  parallel::OffloadOptions offload{.range_elements = 1 << 12};  // so few that units of a little model have several
  if (std::ranges::count(tiers, layout::Tier::disk) > 0) offload.folder = io::temporary_folder();
  train::DividedTraining divided{.plan = plan, .servers = {}, .gradients = layout.gradients, .offload = std::move(offload)};
  if (layout.servers > 0) divided.servers = {.count = layout.servers};
  return train::assemble(std::move(trained), std::move(divided), {}, layout.moments);
}

}  // namespace lockstep::lab
