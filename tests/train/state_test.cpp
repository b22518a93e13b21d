// What a run saves, any number of ranks reads, and writes again to the bit.

#include "train/state.h"

#include <gtest/gtest.h>

#include "checkpoint/find.h"
#include "comm/thread/thread_world.h"
#include "golden/golden_file.h"
#include "support/temp_folder.h"
#include "support/tiny_engine.h"

namespace lockstep::train {
namespace {

using comm::Communicator;

/// An engine of one rank, with what it works with.
struct Rank {
  Rank(const EngineConfig& config, Communicator& world)
      : runtime(open_runtime({}, {.threads = 1})),
        stream(runtime->make_stream()),
        ops(ops::make_ops(*runtime, *stream, {})),
        engine((world.attach(*stream, runtime->team()), config), *runtime, *ops, world) {
    engine.commit();
  }
  Team& team() { return runtime->team(); }

  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<ops::Ops> ops;
  support::RankEngine engine;
};

void on_ranks(int ranks, const EngineConfig& config, const std::function<void(Rank&, Communicator&)>& body) {
  comm::run_ranks(ranks, {.timeout = 60}, [&](Communicator& world) {
    Rank rank(config, world);
    body(rank, world);
  });
}

/// The checkpoint of three steps on one rank.
io::Path trained(const io::Path& run, const EngineConfig& config) {
  io::Path folder;
  on_ranks(1, config, [&](Rank& rank, Communicator& /*world*/) {
    rank.engine.initialise();
    support::Batches batches(1, config.samples, config.positions, config.model.vocabulary);
    for (int step = 0; step < 3; ++step) rank.engine.step(batches.all(), batches.targets(), step, 0.01);
    folder = save_run(run, rank.engine, {3, 9, {}, {}}, Json::Object{}, rank.team()).folder;
  });
  return folder;
}

void expect_equal_files(const io::Path& one, const io::Path& other) {
  for (const auto name : {checkpoint::model_file, checkpoint::optimizer_file})
    EXPECT_TRUE(io::read_file(one / name) == io::read_file(other / name)) << name;
}

TEST(State, AnyNumberOfRanksReadsWhatAnyOtherSaved) {
  for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama()}) {
    for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters, support::bf16_alone}) {
      EngineConfig config = support::tiny_config(model);
      config.weights = weights;
      TempFolder first;
      const io::Path folder = trained(first.path(), config);
      io::Path from = folder;
      std::vector<TempFolder> runs(4);
      for (int ranks = 1; ranks <= 4; ++ranks) {  // each reads what the one before it saved
        SCOPED_TRACE(ranks);
        const io::Path& run = runs[static_cast<std::size_t>(ranks - 1)].path();
        on_ranks(ranks, config, [&](Rank& rank, Communicator& world) {
          const auto reader = checkpoint::open_together(world, from);
          load_run(*reader, rank.engine, world, rank.team());
          EXPECT_NO_THROW(rank.engine.check_state());
          save_run(run, rank.engine, state_of(reader->manifest()), Json::Object{}, rank.team());
        });
        from = run / "checkpoints" / "step_3";
        expect_equal_files(folder, from);
        EXPECT_EQ(checkpoint::read_manifest(from).layout.at("dp").integer(), ranks);
      }
    }
  }
}

// What the model reads follows the masters on every rank.
TEST(State, RanksThatReadTrainOnAlike) {
  EngineConfig config = support::tiny_config();
  config.weights = support::bf16_with_masters;
  TempFolder run;
  const io::Path folder = trained(run.path(), config);
  std::vector<double> sent(2), read(2);
  for (const bool alone : {true, false}) {
    on_ranks(2, config, [&](Rank& rank, Communicator& world) {
      const auto self = comm::make_self();
      if (!alone || world.rank() == 0) {
        Communicator& ranks = alone ? *self : world;
        load_run(*checkpoint::open_together(ranks, folder), rank.engine, ranks, rank.team());
      }
      alone ? rank.engine.broadcast_state(3) : rank.engine.check_state();
      support::Batches batches(1, config.samples, config.positions, config.model.vocabulary, 7);
      rank.engine.step(batches.all(), batches.targets(), 3, 0.01);
      (alone ? sent : read)[static_cast<std::size_t>(world.rank())] =
          rank.engine.step(batches.all(), batches.targets(), 4, 0.01).loss;
    });
  }
  EXPECT_EQ(sent, read);
}

// One file has every sample of the step once, in order, whatever rank had it.
TEST(State, ADumpedStepHasTheSamplesOfAllRanks) {
  const support::Batches all(6, 1, 7, support::tiny_model().vocabulary);
  for (const int ranks : {1, 3}) {
    TempFolder folder;
    EngineConfig config = support::tiny_config();
    config.samples = 1;
    config.plan.microbatches = 6 / ranks;
    on_ranks(ranks, config, [&](Rank& rank, Communicator& world) {
      rank.engine.initialise();
      const auto each = static_cast<std::size_t>(config.plan.microbatches);
      const auto mine = all.all().subspan(static_cast<std::size_t>(world.rank()) * each, each);
      dump_step(folder.path() / "step", rank.engine, mine, 0.5);
    });
    const support::GoldenFile file(folder.path() / "step");
    std::vector<std::int32_t> tokens, targets;
    for (const data::Batch& batch : all.all()) {
      const auto add = [](std::vector<std::int32_t>& to, const Tensor& from) {
        to.insert(to.end(), elements<std::int32_t>(from).begin(), elements<std::int32_t>(from).end());
      };
      add(tokens, batch.tokens);
      add(targets, batch.targets);
    }
    EXPECT_EQ(file.values<std::int32_t>("tokens"), tokens) << ranks;
    EXPECT_EQ(file.values<std::int32_t>("targets"), targets) << ranks;
    EXPECT_EQ(file.values<double>("loss"), std::vector<double>{0.5});
    EXPECT_EQ(file.values<float>("weight.transformer.wte.weight").size(), 65U * 30U);
  }
}

TEST(State, RanksThatStartDifferentlyAreTold) {
  on_ranks(3, support::tiny_config(), [](Rank& rank, Communicator& world) {
    rank.engine.initialise();
    EXPECT_NO_THROW(rank.engine.check_state());
    if (world.rank() == 2) elements<float>(support::parameters_of(rank.engine).front().exp_avg).back() += 1;
    EXPECT_THROW(rank.engine.check_state(), SystemError);
    EXPECT_NO_THROW(rank.engine.broadcast_state());
    EXPECT_NO_THROW(rank.engine.check_state());
  });
}

}  // namespace
}  // namespace lockstep::train
