// Data parallelism: ranks share the global batch, and what a run learns does not depend on how many there are.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "comm/thread/thread_world.h"
#include "data/loader.h"
#include "support/tiny_engine.h"
#include "tensor/compare.h"
#include "train/engine.h"
#include "train/evaluator.h"

namespace lockstep::train {
namespace {

using support::Batches;

constexpr std::int64_t global_micro_batches = 12;  // of one sample each
constexpr int steps = 3;

struct Layout {
  int ranks = 1;
  std::int64_t samples = 1;  // of a micro-batch
  parallel::GradientOptions gradients = {};
  layout::ReduceEvery reduce = layout::ReduceEvery::step;
  bool tied = true;
  float dropout = 0;
  arch::ModelConfig model = support::tiny_model();
  parallel::WeightStorage weights = {};
};

// What a run leaves: losses, and of the last step gradients and weights, parameter by parameter.
struct Learnt {
  std::vector<double> losses, norms;
  std::vector<std::vector<float>> gradients, weights;
};

void train_rank(const Layout& layout, comm::Communicator& world, Learnt& out) {
  const std::unique_ptr<Runtime> runtime = open_runtime({}, {.threads = 1});
  const std::unique_ptr<Stream> stream = runtime->make_stream();
  const std::unique_ptr<ops::Ops> ops = ops::make_ops(*runtime, *stream, {});
  world.attach(*stream, runtime->team());
  EngineConfig config = support::tiny_config(layout.model);
  config.samples = layout.samples;
  config.plan.microbatches = static_cast<int>(global_micro_batches / layout.samples / layout.ranks);
  config.gradients = layout.gradients;
  config.plan.reduce = layout.reduce;
  config.weights = layout.weights;
  config.model.tied = layout.tied && layout.model.tied;
  config.model.dropout = layout.dropout;
  support::RankEngine engine(config, *runtime, *ops, world);
  engine.commit();
  if (world.rank() == 0) engine.initialise();
  engine.broadcast_state();
  EXPECT_EQ(engine.global_batch(), global_micro_batches);
  for (int step = 0; step < steps; ++step) {
    Batches all(global_micro_batches / layout.samples, layout.samples, 7, 65, static_cast<std::uint64_t>(step));
    // Targets that are ignored lie unevenly, so that a mean of means would show.
    for (std::size_t i = 0; i < all.target_values().size() / 3; ++i) all.target_values()[i] = -1;
    const auto first = static_cast<std::size_t>(config.plan.microbatches * world.rank());
    const auto mine = all.all().subspan(first, static_cast<std::size_t>(config.plan.microbatches));
    std::int64_t targets = 0;
    for (const data::Batch& batch : mine) {
      targets += std::ranges::count_if(elements<std::int32_t>(batch.targets), [](std::int32_t target) { return target >= 0; });
    }
    const StepResult result = engine.step(mine, targets, step, 1e-3);
    out.losses.push_back(result.loss);
    out.norms.push_back(result.gradient_norm);
  }
  for (const support::ParameterState& p : support::parameters_of(engine)) {
    out.gradients.push_back(support::values_of(p.gradient));
    out.weights.push_back(support::values_of(p.weight));
  }
}

double distance(const std::vector<float>& a, const std::vector<float>& b, double least) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference) / std::max(std::sqrt(size), least);
}

// Within `tolerance` of losses and norms, and twice that of gradients.
void expect_near(const Learnt& a, const Learnt& b, double tolerance = 1e-5) {
  for (std::size_t i = 0; i < b.losses.size(); ++i) {
    EXPECT_NEAR(a.losses[i], b.losses[i], tolerance * b.losses[i]);
    EXPECT_NEAR(a.norms[i], b.norms[i], tolerance * b.norms[i]);
  }
  for (std::size_t i = 0; i < b.gradients.size(); ++i) {
    EXPECT_LE(distance(a.gradients[i], b.gradients[i], 1e-6), 2 * tolerance) << i;
  }
}

void expect_equal(const Learnt& a, const Learnt& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_EQ(a.gradients, b.gradients);
  EXPECT_EQ(a.weights, b.weights);
}

// What rank 0 is left with; all others are left with the same.
Learnt learn(const Layout& layout) {
  std::vector<Learnt> ranks(static_cast<std::size_t>(layout.ranks));
  comm::run_ranks(layout.ranks, {.timeout = 60},
                  [&](comm::Communicator& world) { train_rank(layout, world, ranks[static_cast<std::size_t>(world.rank())]); });
  for (const Learnt& other : ranks) expect_equal(other, ranks.front());
  return ranks.front();
}

TEST(Ranks, ShareOneGlobalBatch) {
  for (const bool tied : {true, false}) {
    const Learnt alone = learn({.ranks = 1, .samples = 12, .tied = tied});
    for (const int ranks : {1, 2, 3, 4}) {
      for (const std::int64_t samples : {std::int64_t{1}, 12 / static_cast<std::int64_t>(ranks)}) {
        expect_near(learn({.ranks = ranks, .samples = samples, .tied = tied}), alone);
      }
    }
  }
}

TEST(Ranks, ShareALlama) {
  for (const arch::ModelConfig& model : {support::tiny_llama(), support::tiny_qwen2()}) {
    const Learnt alone = learn({.ranks = 1, .samples = 12, .model = model});
    for (const int ranks : {2, 3, 4}) {
      const Learnt shared = learn({.ranks = ranks, .samples = 1, .model = model});
      expect_near(shared, alone);
      expect_equal(learn({.ranks = ranks, .samples = 1, .gradients = {.bucket_bytes = 1, .overlap = false}, .model = model}),
                   shared);
    }
  }
}

// Rows of activations are rounded alike wherever they are computed: what differs is, as in fp32, how gradients are added up.
TEST(Ranks, ShareOneGlobalBatchInBf16) {
  for (const parallel::WeightStorage& weights : {support::bf16_with_masters, support::bf16_alone}) {
    for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_qwen2()}) {
      const Learnt alone = learn({.ranks = 1, .samples = 12, .model = model, .weights = weights});
      for (const int ranks : {2, 4}) {
        const Learnt shared = learn({.ranks = ranks, .samples = 1, .model = model, .weights = weights});
        expect_near(shared, alone, 2e-2);
        for (const bool overlap : {true, false}) {
          const parallel::GradientOptions options{.bucket_bytes = 1, .overlap = overlap};
          expect_equal(learn({.ranks = ranks, .samples = 1, .gradients = options, .model = model, .weights = weights}), shared);
        }
      }
    }
  }
}

// Masks are addressed by the global number of a sample.
TEST(Ranks, DropTheSame) {
  const Learnt alone = learn({.ranks = 1, .samples = 3, .dropout = 0.2F});
  expect_near(learn({.ranks = 4, .samples = 3, .dropout = 0.2F}), alone);
  expect_near(learn({.ranks = 2, .samples = 3, .dropout = 0.2F}), alone);
}

TEST(Ranks, OverlapAndBucketsChangeNoBit) {
  for (const layout::ReduceEvery reduce : {layout::ReduceEvery::step, layout::ReduceEvery::microbatch}) {
    const Learnt first = learn({.ranks = 3, .samples = 2, .reduce = reduce});
    for (const std::int64_t bytes : {1, 20000, 1 << 30}) {
      for (const bool overlap : {true, false}) {
        const parallel::GradientOptions options{.bucket_bytes = bytes, .overlap = overlap};
        expect_equal(learn({.ranks = 3, .samples = 2, .gradients = options, .reduce = reduce}), first);
      }
    }
  }
}

// (a0 + b0) + (a1 + b1) and (a0 + a1) + (b0 + b1): other bits, the same sum.
TEST(Ranks, ReducingEachMicroBatchIsWithinTolerance) {
  const Learnt step = learn({.ranks = 2, .samples = 2});
  expect_near(learn({.ranks = 2, .samples = 2, .reduce = layout::ReduceEvery::microbatch}), step);
  // With one micro-batch a step they are one.
  expect_equal(learn({.ranks = 2, .samples = 6, .reduce = layout::ReduceEvery::microbatch}), learn({.ranks = 2, .samples = 6}));
}

TEST(Ranks, AreRepeatable) { expect_equal(learn({.ranks = 4, .samples = 1}), learn({.ranks = 4, .samples = 1})); }

}  // namespace
}  // namespace lockstep::train
