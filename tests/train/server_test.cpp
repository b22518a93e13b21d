// Parameter servers: what they make of gradients and weights, beside ranks that do the same together.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "comm/thread/thread_world.h"
#include "support/tiny_engine.h"
#include "train/engine.h"
#include "train/server/server_side.h"
#include "train/server/worker_side.h"

namespace lockstep::train {
namespace {

using support::Batches;

constexpr int few_steps = 4;

struct ServerLayout {
  int workers = 2, servers = 1;
  ServerMode mode = ServerMode::gradients;
  std::optional<std::int64_t> staleness = {};
  bool tied = true, overlap = true;
  int microbatches = 2;
  int masked_step = -1;    // has no targets
  int masked_worker = -1;  // the worker whose targets it lacks; -1: all
  int steps = few_steps;
  double learning_rate = 1e-3;
  bool one_text = false;     // in all steps: it is learnt by heart
  bool slow_worker = false;  // worker 0 takes longer over a step than the others over several
  parallel::WeightStorage weights = {};
  float dropout = 0.1F;
  int broken_step = -1;  // worker 0's gradient is not finite
};

// What rank 0 is left with.
struct LearntByServers {
  std::vector<double> losses, norms;
  double last_loss = 0;  // of the last step's samples of all workers, with the weights at the end
  std::vector<std::vector<float>> weights, first_moments, second_moments;
  std::optional<Staleness> staleness;
  std::int64_t updates = 0;
};

EngineConfig config_of(const ServerLayout& layout) {
  EngineConfig config = support::tiny_config();
  config.samples = 2;
  config.plan.microbatches = layout.microbatches;
  config.model.tied = layout.tied;
  config.model.dropout = layout.dropout;
  config.grad_clip = 0.5F;
  config.gradients.overlap = layout.overlap;
  config.weights = layout.weights;
  config.servers = {.mode = layout.mode, .count = layout.servers};
  return config;
}

// Until servers send others.
void spoil_weights(Engine& engine) {
  engine.state().for_each({.changes = true}, [](const parallel::StateRange& range) {
    std::ranges::fill(elements<std::byte>(range.master), std::byte{0xFF});
  });
  engine.weights_changed();
}

void take_steps(const ServerLayout& layout, Engine& engine, LearntByServers& out) {
  const int rank = engine.groups().all().rank();
  const EngineConfig& config = engine.config();
  const auto text_of = [&](int step) {
    return Batches(layout.workers * config.plan.microbatches, config.samples, 7, 65,
                   static_cast<std::uint64_t>(layout.one_text ? 0 : step));
  };
  for (int step = 0; step < layout.steps; ++step) {
    Batches all = text_of(step);
    const auto first = static_cast<std::size_t>(rank * config.plan.microbatches);
    const auto mine = all.all().subspan(first, static_cast<std::size_t>(config.plan.microbatches));
    if (layout.slow_worker && rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const bool masked = step == layout.masked_step && (layout.masked_worker < 0 || layout.masked_worker == rank);
    if (masked) std::ranges::fill(all.target_values(), -1);
    const bool broken = step == layout.broken_step && (rank == 0 || layout.mode == ServerMode::gradients);
    if (broken && rank == 0) spoil_weights(engine);
    const StepResult result = engine.step(mine, masked ? 0 : all.targets() / layout.workers, step, layout.learning_rate);
    EXPECT_EQ(result.finite, !broken);
    if (rank != 0) continue;
    out.losses.push_back(result.loss);
    out.norms.push_back(result.gradient_norm);
    out.staleness = result.staleness;
  }
  engine.control().settle();
  engine.state().collect();
  const Batches last = text_of(layout.steps - 1);
  double loss = 0;
  for (const data::Batch& batch : last.all()) loss += engine.evaluate(batch);
  if (rank != 0) return;
  out.updates = engine.state().updates();
  out.last_loss = loss / static_cast<double>(last.targets());
  for (const support::ParameterState& p : support::parameters_of(engine)) {
    out.weights.push_back(support::values_of(p.weight));
    out.first_moments.push_back(support::values_of(p.exp_avg));
    out.second_moments.push_back(support::values_of(p.exp_avg_sq));
  }
}

void run_rank(const ServerLayout& layout, comm::Communicator& world, LearntByServers& out) {
  support::Machine machine(1);
  world.attach(*machine.stream, machine.runtime->team());
  const EngineConfig config = config_of(layout);
  const bool serves = world.rank() >= layout.workers;
  const std::unique_ptr<comm::Communicator> group = world.split(serves ? 1 : 0, world.rank());
  if (serves) {
    ServerSide serving(config, {.staleness = layout.staleness}, *machine.runtime, *machine.ops, world, *group);
    serving.commit();
    return serving.run();
  }
  support::RankEngine engine(config, *machine.runtime, *machine.ops, *group,
                             [&](const UpdaterParts& parts) { return make_worker_updater(parts, world); });
  engine.commit();
  if (world.rank() == 0) engine.initialise();
  engine.broadcast_state();
  take_steps(layout, engine, out);
  engine.control().leave();
}

LearntByServers learn_served(const ServerLayout& layout) {
  LearntByServers learnt;
  comm::run_ranks(layout.workers + layout.servers, {.timeout = 60},
                  [&](comm::Communicator& world) { run_rank(layout, world, learnt); });
  return learnt;
}

// The same ranks without servers.
LearntByServers learn_together(const ServerLayout& layout) {
  LearntByServers learnt;
  comm::run_ranks(layout.workers, {.timeout = 60}, [&](comm::Communicator& world) {
    support::Machine machine(1);
    world.attach(*machine.stream, machine.runtime->team());
    EngineConfig config = config_of(layout);
    config.servers.reset();
    support::RankEngine engine(config, *machine.runtime, *machine.ops, world);
    engine.commit();
    if (world.rank() == 0) engine.initialise();
    engine.broadcast_state();
    take_steps(layout, engine, learnt);
  });
  return learnt;
}

void expect_equal(const LearntByServers& a, const LearntByServers& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_EQ(a.weights, b.weights);
  EXPECT_EQ(a.first_moments, b.first_moments);
  EXPECT_EQ(a.second_moments, b.second_moments);
}

TEST(Server, AStepWithoutTargetsChangesNothing) {
  const LearntByServers expected = learn_together({.masked_step = few_steps - 1});
  expect_equal(learn_served({.servers = 2, .masked_step = few_steps - 1}), expected);
  EXPECT_EQ(expected.losses.back(), 0);
  const LearntByServers apart = learn_served({.workers = 1, .mode = ServerMode::async, .masked_step = few_steps - 1});
  expect_equal(apart, learn_together({.workers = 1, .masked_step = few_steps - 1}));
}

/// With a step in the middle that is left out, and without it.
void expect_gap_does_nothing(ServerLayout layout, int updates) {
  layout.dropout = 0;  // masks follow from the iteration
  layout.one_text = true;
  ServerLayout whole = layout;
  layout.steps = 3;
  whole.steps = 2;
  whole.masked_step = whole.broken_step = -1;
  const LearntByServers with = learn_served(layout), without = learn_served(whole);
  EXPECT_EQ(with.weights, without.weights);
  EXPECT_EQ(with.first_moments, without.first_moments);
  EXPECT_EQ(with.second_moments, without.second_moments);
  EXPECT_EQ(with.last_loss, without.last_loss);
  EXPECT_EQ(with.updates, updates);
  EXPECT_EQ(without.updates, updates);
}

TEST(Server, AStepThatIsLeftOutIsNotCounted) {
  for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_alone}) {
    expect_gap_does_nothing({.workers = 3, .servers = 2, .masked_step = 1, .weights = weights}, 2);
    expect_gap_does_nothing({.workers = 3, .servers = 2, .weights = weights, .broken_step = 1}, 2);
    for (const int masked : {0, 1})
      expect_gap_does_nothing(
          {.workers = 3, .servers = 2, .mode = ServerMode::weights, .masked_step = masked, .weights = weights}, 2);
    for (const int servers : {1, 2}) {
      ServerLayout apart{.workers = 1, .servers = servers, .mode = ServerMode::async, .masked_step = 1, .weights = weights};
      expect_gap_does_nothing(apart, 2);
      std::swap(apart.masked_step, apart.broken_step);
      expect_gap_does_nothing(apart, 2);
    }
  }
  // One of three workers that do not wait for each other has left a step out.
  const LearntByServers apart =
      learn_served({.workers = 3, .servers = 2, .mode = ServerMode::async, .steps = 3, .broken_step = 1});
  EXPECT_EQ(apart.updates, 8);
  EXPECT_LE(apart.staleness->updates, 8);
}

TEST(Server, AWorkerWithoutTargetsHasNoPartInTheLoss) {
  ServerLayout layout{.workers = 3, .staleness = 0, .masked_step = 1, .masked_worker = 1, .learning_rate = 0, .dropout = 0};
  const LearntByServers together = learn_together(layout);
  for (const ServerMode mode : {ServerMode::gradients, ServerMode::weights, ServerMode::async}) {
    layout.mode = mode;
    const LearntByServers served = learn_served(layout);
    for (std::size_t step = 0; step < together.losses.size(); ++step)
      EXPECT_NEAR(served.losses[step], together.losses[step], 1e-6) << step;
  }
}

TEST(Server, GradientsAreDataParallelism) {
  for (const bool tied : {true, false}) {
    for (const int workers : {1, 2, 3, 4}) {
      const LearntByServers expected = learn_together({.workers = workers, .tied = tied});
      for (const int servers : {1, 2, 3}) {
        SCOPED_TRACE(testing::Message() << workers << " workers, " << servers << " servers, tied " << tied);
        expect_equal(learn_served({.workers = workers, .servers = servers, .tied = tied}), expected);
      }
    }
  }
}

TEST(Server, OverlapChangesNoBit) {
  expect_equal(learn_served({.workers = 3, .servers = 2, .overlap = false}), learn_served({.workers = 3, .servers = 2}));
}

TEST(Server, TrainsInBf16) {
  for (const parallel::WeightStorage& weights : {support::bf16_with_masters, support::bf16_alone}) {
    const LearntByServers together = learn_together({.workers = 3, .weights = weights});
    for (const int servers : {1, 2}) {
      expect_equal(learn_served({.workers = 3, .servers = servers, .weights = weights}), together);
    }
    const LearntByServers alone = learn_together({.workers = 1, .weights = weights});
    for (const ServerMode mode : {ServerMode::weights, ServerMode::async}) {
      expect_equal(learn_served({.workers = 1, .servers = 2, .mode = mode, .weights = weights}), alone);
    }
    const LearntByServers average = learn_served({.workers = 3, .servers = 2, .mode = ServerMode::weights, .weights = weights});
    EXPECT_EQ(average.losses.front(), together.losses.front());
    EXPECT_NEAR(average.losses.back(), together.losses.back(), 0.1);
  }
}

// One worker waits for no other and is averaged with none.
TEST(Server, OneWorkerLearnsWhatOneRankLearns) {
  const LearntByServers expected = learn_together({.workers = 1});
  for (const ServerMode mode : {ServerMode::weights, ServerMode::async}) {
    for (const int servers : {1, 2}) {
      expect_equal(learn_served({.workers = 1, .servers = servers, .mode = mode}), expected);
    }
  }
}

// AdamW normalises each worker's gradient by itself: other weights than from the mean gradient, though near.
TEST(Server, AveragedWeightsAreNotDataParallelism) {
  const ServerLayout layout{.workers = 3, .servers = 2, .mode = ServerMode::weights};
  const LearntByServers average = learn_served(layout), together = learn_together(layout);
  expect_equal(average, learn_served(layout));
  EXPECT_NE(average.weights, together.weights);
  EXPECT_EQ(average.losses.front(), together.losses.front());
  EXPECT_NEAR(average.losses.back(), together.losses.back(), 0.1);
}

TEST(Server, AsynchronousWorkersLearnAndReportStaleness) {
  const ServerLayout plain{.workers = 3, .servers = 2, .steps = 30, .learning_rate = 3e-3, .one_text = true};
  const double together = learn_together(plain).last_loss;
  EXPECT_LT(together, 2.5);
  for (const std::optional<std::int64_t> bound : {std::optional<std::int64_t>{}, {0}, {2}}) {
    ServerLayout layout = plain;
    layout.mode = ServerMode::async;
    layout.staleness = bound;
    const LearntByServers learnt = learn_served(layout);
    ASSERT_TRUE(learnt.staleness);
    EXPECT_GE(learnt.staleness->updates, layout.steps);
    EXPECT_LE(learnt.staleness->updates, 3 * layout.steps);
    // With a bound of 0 a worker begins a step when all have pushed the last one.
    if (bound == 0) {
      EXPECT_LE(learnt.staleness->greatest, 2);
    }
    // Three times as many updates as the workers make together, of gradients that are up to so many updates old.
    EXPECT_LT(learnt.last_loss, 3);
  }
}

// A worker that is s steps ahead waits for the slowest. So between a pull of the slow one and its update, each of the others
// takes at most 2s+1 steps. It may have been s behind at first, and ends s ahead when the slow one pushes.
TEST(Server, ABoundKeepsTheSlowestWorkersUpdatesFresh) {
  ServerLayout layout{.workers = 3, .servers = 1, .mode = ServerMode::async, .steps = 20, .slow_worker = true};
  for (const std::int64_t bound : {1, 2, 4}) {
    layout.staleness = bound;
    const LearntByServers learnt = learn_served(layout);
    ASSERT_TRUE(learnt.staleness);
    EXPECT_GE(learnt.staleness->greatest, 1) << bound;
    EXPECT_LE(learnt.staleness->greatest, 2 * (2 * bound + 1)) << bound;
  }
}

// An error on either side ends the others.
TEST(Server, AnErrorOfOneRankEndsAll) {
  for (const int culprit : {1, 2}) {
    const auto run = [&] {
      LearntByServers learnt;
      comm::run_ranks(3, {.timeout = 60}, [&](comm::Communicator& world) {
        if (world.rank() == culprit) throw UserError("no memory left");
        run_rank({.workers = 2, .servers = 1}, world, learnt);
      });
    };
    EXPECT_THROW(run(), UserError);
  }
}

}  // namespace
}  // namespace lockstep::train
