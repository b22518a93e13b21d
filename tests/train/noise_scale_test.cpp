// The gradient noise scale against gradients of micro-batches that are taken apart.

#include <gtest/gtest.h>

#include "support/layout_run.h"

namespace lockstep::train {
namespace {

using support::LayoutRun;

double square(const support::Values& gradients) {
  double sum = 0;
  for (const auto& [name, values] : gradients) {
    if (name == "transformer.wte.weight") continue;  // tied
    for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return sum;
}

/// Micro-batches of the step of all ranks, with as many targets each.
class Step {
 public:
  explicit Step(const LayoutRun& run) : Step(support::alone(run).config(), 0) {}
  std::span<const data::Batch> of_replica(int replica, int each) {
    return std::span<const data::Batch>(all_.all())
        .subspan(static_cast<std::size_t>(replica * each), static_cast<std::size_t>(each));
  }
  static StepResult take(support::LayoutRank& rank, std::span<const data::Batch> batches) {
    std::int64_t targets = 0;
    for (const data::Batch& batch : batches) targets += batch.target_count;
    return rank.engine().step(batches, targets, 0, 0);
  }

 private:
  Step(const EngineConfig& config, std::uint64_t seed)
      : all_(config.plan.microbatches, config.samples, config.positions, config.model.vocabulary, seed) {}
  support::Batches all_;
};

/// The figures of a run's first step.
parallel::GradientNoise noise_of(const LayoutRun& run) {
  parallel::GradientNoise noise;
  support::on_layout(run, [&](support::LayoutRank& rank) {
    rank.engine().initialise();
    Step step(run);
    const StepResult result = Step::take(rank, step.of_replica(rank.groups().at().dp, run.plan().microbatches));
    ASSERT_TRUE(result.noise);
    if (rank.lead()) noise = *result.noise;
  });
  return noise;
}

/// Squares of the gradient of the whole step, and the mean of those of its micro-batches `taken`, each by itself.
struct Squares {
  double large = 0, small = 0, targets = 0;
};
Squares squares_of(const LayoutRun& run, const std::vector<int>& taken) {
  Squares all;
  const auto square_of = [&](const LayoutRun& like, std::span<const data::Batch> batches) {
    double found = 0;
    support::on_layout(like, [&](support::LayoutRank& rank) {
      rank.engine().initialise();
      support::LayoutResult result;
      all.targets = static_cast<double>(Step::take(rank, batches).targets);
      rank.collect(result);
      found = square(result.gradients);
    });
    return found;
  };
  Step step(run);
  LayoutRun one = run;
  one.layout = "gas=1";
  for (const int m : taken) all.small += square_of(one, step.of_replica(m, 1)) / static_cast<double>(taken.size());
  all.large = square_of(support::alone(run), step.of_replica(0, support::alone(run).plan().microbatches));
  return all;
}

LayoutRun run_of(const char* layout) {
  return {.layout = layout, .model = support::tiny_model(), .optimizer = support::smooth, .grad_clip = 0, .samples = 2};
}

TEST(NoiseScale, IsThatOfMicrobatchesTakenApart) {
  const double m = 4;
  const std::vector<std::pair<const char*, std::vector<int>>> layouts{{"gas=4", {0}},
                                                                      {"dp=2,gas=2", {0, 2}},
                                                                      {"dp=4,zero=2", {0, 1, 2, 3}},
                                                                      {"pp=2,gas=4", {0}},
                                                                      {"dp=2,gas=2,reduce=microbatch,zero=1", {0, 2}},
                                                                      {"dp=4,tp=3", {0, 1, 2, 3}},
                                                                      {"gas=4,canonical", {0}}};
  for (const auto& [layout, first] : layouts) {
    SCOPED_TRACE(layout);
    const LayoutRun run = run_of(layout);
    const Squares apart = squares_of(run, first);
    const parallel::GradientNoise noise = noise_of(run);
    EXPECT_EQ(noise.steps, 1);
    const double scale = apart.small + apart.large;
    EXPECT_NEAR(noise.square, (m * apart.large - apart.small) / (m - 1), 1e-4 * scale);
    EXPECT_NEAR(noise.variance / apart.targets, (apart.small - apart.large) / (m - 1), 1e-4 * scale);
  }
}

TEST(NoiseScale, IsTheQuotientOfSums) {
  parallel::GradientNoise sum{.steps = 1, .square = -1, .variance = 30};
  EXPECT_FALSE(sum.scale());
  sum += {.steps = 1, .square = 3, .variance = 10};
  EXPECT_EQ(sum.steps, 2);
  EXPECT_EQ(sum.scale(), 20);
}

TEST(NoiseScale, IsNotTakenWhereAMicrobatchIsNotWhole) {
  for (const char* layout : {"gas=1", "cp=2,gas=2", "pp=2,schedule=zb-h1,gas=4", "tp=2,gas=2", "gas=2,offload_optimizer=cpu"}) {
    support::on_layout(run_of(layout), [&](support::LayoutRank& rank) {
      rank.engine().initialise();
      EXPECT_FALSE(rank.step(0).noise) << layout;
    });
  }
}

}  // namespace
}  // namespace lockstep::train
