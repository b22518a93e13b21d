// A run that ends in the step whose gradient is not finite: its weights are those of the step before.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <span>

#include "checkpoint/find.h"
#include "comm/thread/thread_world.h"
#include "io/file.h"
#include "support/temp_folder.h"
#include "support/tiny_trainer.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t spoilt_step = 3;  // the fourth, counted from 0

struct Run {
  std::int64_t max_iters = spoilt_step + 1;
  std::int64_t interval = 100;
  std::int64_t spoilt = 1;  ///< steps
  bool heals = true;        ///< false: behind these steps weights are too large for a finite loss
  bool killed = false;      ///< the kill file appears in the first of them
};

/// A weight is no number while these steps are taken.
class Spoiler final : public RunListener {
 public:
  Spoiler(Engine& engine, const Run& run, io::Path kill_file) : engine_(engine), run_(run), kill_file_(std::move(kill_file)) {}
  void step_begins(std::int64_t step) override {
    if (!spoils(step)) return;
    kept_ = std::exchange(weights().front(), std::numeric_limits<float>::quiet_NaN());
    if (run_.killed) io::replace_file(kill_file_, "");
  }
  void step_taken(std::int64_t step, const data::StepBatches& /*batches*/, const StepResult& result) override {
    EXPECT_EQ(result.finite, !spoils(step));
    if (!spoils(step)) return;
    weights().front() = kept_;
    if (!run_.heals) std::ranges::fill(weights(), 3e38F);
  }

 private:
  bool spoils(std::int64_t step) const { return step >= spoilt_step && step < spoilt_step + run_.spoilt; }
  std::span<float> weights() { return elements<float>(support::parameters_of(engine_).front().weight); }

  Engine& engine_;
  Run run_;
  io::Path kill_file_;
  float kept_ = 0;
};

/// The steps that are saved.
std::vector<std::int64_t> saved(const Run& run) {
  const TempFolder folder;
  io::replace_file(folder / "text.bin", std::string(4000, '\1'));
  comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& world) {
    support::TinyTrainer tiny(world, folder / "text.bin");
    const TrainerParts parts = tiny.parts(tiny.loader());
    TrainerOptions options;
    options.max_iters = run.max_iters;
    options.checkpoint_interval = run.interval;
    options.folder = folder.path();
    options.watches = world.rank() == 0;
    options.switches.kill_file = (folder / "kill").string();
    Trainer trainer(options, parts);
    RunListeners listeners;
    Run own = run;
    own.killed = run.killed && world.rank() == 0;
    listeners.push_back(std::make_unique<Spoiler>(parts.engine, own, folder / "kill"));
    trainer.run({}, std::move(listeners));
  });
  std::vector<std::int64_t> steps;
  for (const checkpoint::Found& found : checkpoint::list_checkpoints(folder.path())) steps.push_back(found.step);
  return steps;
}

using Steps = std::vector<std::int64_t>;

TEST(LastStep, ItsWeightsAreSavedWhereTheyGiveAFiniteLoss) {
  EXPECT_EQ(saved({}), Steps{spoilt_step + 1});
  EXPECT_EQ(saved({.interval = 2}), (Steps{2, 4}));
  EXPECT_EQ(saved({.heals = false}), Steps{});
}

TEST(LastStep, AStopSavesThemToo) {
  EXPECT_EQ(saved({.max_iters = 100, .killed = true}), Steps{spoilt_step + 1});
  EXPECT_EQ(saved({.max_iters = 100, .heals = false, .killed = true}), Steps{});
}

TEST(LastStep, OfSeveralSuchStepsNothingIsSaved) { EXPECT_EQ(saved({.max_iters = spoilt_step + 2, .spoilt = 2}), Steps{}); }

// The next step tells whether they are good.
TEST(LastStep, ARunThatGoesOnSavesLater) { EXPECT_EQ(saved({.max_iters = 5, .interval = 4}), Steps{5}); }

}  // namespace
}  // namespace lockstep::train
