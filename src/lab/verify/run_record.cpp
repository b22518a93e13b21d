#include "lab/verify/run_record.h"

#include <cstring>

#include "base/rng.h"
#include "tensor/bfloat16.h"

namespace lockstep::lab {
namespace {

using parallel::StateRange;

/// Takes what a rank answers for.
class Recorder final : public RankObserver {
 public:
  Recorder(RunRecord& record, const RunRecord* like, int rank) : record_(record), like_(like), lead_(rank == 0) {}

  void drawn(parallel::TrainingState& state) override {
    state.for_each({}, [&](const StateRange& range) { take(state, range, range.master, range.own, record_.drawn); });
    if (like_ != nullptr) {
      load(record_.whole, like_->start, state);
    } else {
      state.for_each({.changes = true}, [&](const StateRange& range) { move(state, range); });
    }
  }
  void started(parallel::TrainingState& state) override { take(state, record_.start); }
  bool before(int /*step*/, parallel::TrainingState& /*state*/) override { return false; }
  void reads(const layout::Unit& /*unit*/, const layout::Part& /*part*/, const Tensor& /*values*/) override {}
  void reduced(int step, parallel::TrainingState* state, train::StepResult& result) override {
    RunRecord::Step& record = at(step);
    if (lead_) record.loss = result.loss, record.norm = result.gradient_norm;
    ensure(state != nullptr, "what servers learn is compared, not compared with");
    state->for_each({.gradients = true},
                    [&](const StateRange& range) { take(*state, range, range.gradient, range.own, record.gradients); });
  }
  void updated(int step, parallel::TrainingState& state) override { take(state, at(step).after); }
  void evaluated(double loss) override {
    if (lead_) record_.evaluated = loss;
  }

 private:
  RunRecord::Step& at(int step) { return record_.steps[static_cast<std::size_t>(step)]; }
  void take(const parallel::TrainingState& state, const StateRange& range, const Tensor& values, const layout::Range& own,
            WholeValues& to) {
    if (values.dtype != to.type()) return;  // what is not trained has no copy in the type of masters
    for_each_run(record_.whole, unit_of(state, range), range.range, values, own, [&](const HeldRun& run) {
      if (!run.counts) return;
      std::memcpy(to.of(run.parameter, run.first, run.values.elements()).data, run.values.data, run.values.bytes());
    });
  }
  void take(parallel::TrainingState& state, ModelState& to) {
    state.for_each({.slots = true}, [&](const StateRange& range) {
      take(state, range, range.master, range.own, to.masters);
      take(state, range, range.published, range.own, to.published);
      for (std::size_t s = 0; s < range.slots.size(); ++s) take(state, range, range.slots[s], range.own_slots, to.slots[s]);
    });
  }
  // Models start with biases of zero and gains of one, which would hide much.
  void move(const parallel::TrainingState& state, const StateRange& range) {
    for_each_run(record_.whole, unit_of(state, range), range.range, range.master, range.own, [&](const HeldRun& run) {
      const CounterRng rng(1, record_.whole.parameters[static_cast<std::size_t>(run.parameter)].name);
      std::int64_t place = run.first;
      const auto by = [&] { return 0.1F * (static_cast<float>(rng.uniform(static_cast<std::uint64_t>(place++))) - 0.5F); };
      if (run.values.dtype == DType::bf16) {
        const std::span narrow(reinterpret_cast<BFloat16*>(run.values.data), static_cast<std::size_t>(run.values.elements()));
        for (BFloat16& value : narrow) value = to_bfloat16(to_float(value) + by());
        return;
      }
      for (float& value : elements<float>(run.values)) value += by();
    });
  }

  RunRecord& record_;
  const RunRecord* like_;
  bool lead_;
};

}  // namespace

RunRecord::RunRecord(const VerifyModel& model, const Layout& layout, int count) : whole(model.config) {
  const train::EngineConfig config = config_of(model, layout);
  slots = train::make_optimizer(config.optimizer)->slots();
  const auto state = [&] {
    ModelState all{.masters = {whole, config.weights.owned()}, .published = {whole, config.weights.type}, .slots = {}};
    for (std::size_t s = 0; s < slots.size(); ++s) all.slots.emplace_back(whole, config.slot_type());
    return all;
  };
  drawn = WholeValues(whole, config.weights.owned());
  start = state();
  for (int step = 0; step < count; ++step) steps.push_back({.gradients = WholeValues(whole, DType::f32), .after = state()});
}

std::unique_ptr<RankObserver> make_recorder(RunRecord& record, const RunRecord* like, int rank) {
  return std::make_unique<Recorder>(record, like, rank);
}

void load(const WholeModel& whole, const ModelState& from, parallel::TrainingState& state) {
  const auto put = [&](const StateRange& range, const Tensor& values, const WholeValues& all) {
    for_each_run(whole, unit_of(state, range), range.range, values, range.range, [&](const HeldRun& run) {
      std::memcpy(run.values.data, all.of(run.parameter, run.first, run.values.elements()).data, run.values.bytes());
    });
  };
  state.for_each({.slots = true, .changes = true}, [&](const StateRange& range) {
    put(range, range.master, from.of(range.master));
    for (std::size_t s = 0; s < range.slots.size(); ++s) put(range, range.slots[s], from.slots[s]);
  });
}

}  // namespace lockstep::lab
