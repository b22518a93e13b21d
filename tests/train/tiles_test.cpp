// Matrices that are leased tile by tile: the bits of whole ones.

#include <gtest/gtest.h>

#include "checkpoint/reader.h"
#include "support/checking_store.h"
#include "support/far_device.h"
#include "support/layout_run.h"
#include "support/temp_folder.h"
#include "support/zero_run.h"
#include "train/inference.h"
#include "train/sample.h"
#include "train/state.h"

namespace lockstep::train {
namespace {

using layout::Tier;
using layout::Tiles;
using support::ZeroRank;
using support::ZeroResult;
using support::ZeroRun;

/// Wider than the 256 features at which tiles are cut, by little; of the Llama's gate and what goes up one tile has both.
arch::ModelConfig wide(arch::ModelConfig model) {
  model.width = 264;
  model.heads = 3;
  model.kv_heads = std::min(model.kv_heads, model.heads);
  model.head_size = 88;
  model.ffn_width = model.gated ? 300 : 520;
  return model;
}
arch::ModelConfig wide_gpt2() { return wide(support::tiny_model()); }
arch::ModelConfig wide_llama() {
  arch::ModelConfig model = support::tiny_llama();
  model.kv_heads = 1;
  return wide(model);
}

const std::vector<Tiles> all_tiles{{1, 2}, {2, 1}, {3, 3}};

std::vector<ZeroRun> runs() {
  std::vector<ZeroRun> all;
  for (const arch::ModelConfig& model : {wide_gpt2(), wide_llama()}) {
    for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters, support::bf16_alone}) {
      ZeroRun run;
      run.model = model;
      run.model.dropout = model.position == arch::PositionKind::rope ? 0 : 0.1F;
      run.weights = weights;
      run.grad_clip = 0.1F;
      run.steps = 10;
      all.push_back(run);
    }
  }
  return all;
}

/// With one of the runs.
class TilesOf : public testing::TestWithParam<std::size_t> {
 protected:
  ZeroRun run_ = runs()[GetParam()];
  TempFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Runs, TilesOf, testing::Range(std::size_t{0}, runs().size()));

TEST_P(TilesOf, HaveTheBitsOfWholeMatrices) {
  for (run_.ranks = 1; run_.ranks <= 4; ++run_.ranks) {
    run_.steps = run_.ranks == 2 ? 10 : 2;
    run_.level = 0;
    run_.tiles = {};
    const ZeroResult whole = support::learn(run_);
    run_.tiles = {2, 2};
    run_.level = run_.ranks - 1;
    support::expect_equal(support::learn(run_), whole);
    run_.level = 3;
    for (const Tiles& tiles : {Tiles{1, 2}, run_.ranks % 2 == 0 ? Tiles{2, 1} : Tiles{3, 3}}) {
      run_.tiles = tiles;
      support::expect_equal(support::learn(run_), whole);
    }
  }
}

TEST_P(TilesOf, ThatLieElsewhereHaveTheBitsToo) {
  run_.offload.folder = folder_.path();
  run_.offload.range_elements = parallel::OffloadOptions::piece;  // ranges begin and end within rows
  run_.steps = 2;
  for (run_.ranks = 1; run_.ranks <= 3; run_.ranks += 2) {
    run_.level = run_.ranks == 1 ? 0 : 3;
    run_.tiles = {};
    run_.parameters_tier = run_.optimizer_tier = Tier::device;
    const ZeroResult whole = support::learn(run_);
    for (const Tiles& tiles : all_tiles) {
      run_.tiles = tiles;
      run_.parameters_tier = tiles.in > tiles.out ? Tier::host : Tier::disk;
      run_.optimizer_tier = tiles.in == 1 ? Tier::device : run_.parameters_tier;
      support::expect_equal(support::learn(run_), whole);
    }
  }
}

TEST(Tiles, ChangeNoBitWhateverIsLeasedAheadAndMadeAgain) {
  using Kind = layout::Recompute::Kind;
  for (const arch::ModelConfig& model : {wide_gpt2(), wide_llama()}) {
    ZeroRun run{.ranks = 2, .model = model};
    run.model.layers = 3;
    run.steps = 2;
    const ZeroResult whole = support::learn(run);
    run.level = 3;
    run.tiles = {2, 2};
    for (const layout::Recompute& recompute :
         {layout::Recompute{}, {Kind::selective}, {Kind::full}, layout::Recompute{Kind::full, 2}}) {
      run.recompute = recompute;
      support::expect_equal(support::learn(run), whole);
      run.prefetch = 4 - run.prefetch;
    }
    run.prefetch = 0;
    run.reshard_after_forward = false;
    support::expect_equal(support::learn(run), whole);
  }
}

// What the last block would make again is still there.
TEST(Tiles, ChangeNoBitWhereBackwardIsDirectlyBehindForward) {
  using Kind = layout::Recompute::Kind;
  for (const layout::Recompute& recompute : {layout::Recompute{Kind::selective}, {Kind::full}}) {
    ZeroRun run{.ranks = 2, .model = wide_llama(), .microbatches = 1, .recompute = recompute};
    const ZeroResult whole = support::learn(run);
    run.level = 3;
    run.tiles = {2, 2};
    support::expect_equal(support::learn(run), whole);
  }
}

TEST(Tiles, ChangeNoBitInPipelines) {
  for (const char* schedule : {"1f1b", "zb-h1"}) {
    for (const bool tied : {true, false}) {
      ZeroRun run{.ranks = 2, .model = wide_gpt2(), .microbatches = 4, .stages = 2, .schedule = schedule};
      run.model.tied = tied;
      run.steps = 2;
      const ZeroResult whole = support::learn(run);
      run.level = 3;
      run.tiles = {2, 2};
      support::expect_equal(support::learn(run), whole);
    }
  }
}

// Of a rank's part of a layer, which is as wide as with one rank.
TEST(Tiles, ChangeNoBitWhereRanksDivideLayersAndSequences) {
  for (const arch::ModelConfig& narrow : {wide_gpt2(), wide_llama()}) {
    arch::ModelConfig model = narrow;
    model.heads = 6;
    model.kv_heads = model.gated ? 2 : 6;
    model.ffn_width *= 2;
    for (const bool sequence : {false, true}) {
      const int cp = sequence ? 2 : 1, dp = 3 - cp;
      support::LayoutRun run{.plan = {.dp = dp, .tp = 2, .cp = cp, .sequence = sequence, .microbatches = 2}, .model = model};
      run.plan.ranks_per_host = run.plan.ranks();
      layout::set_zero_level(run.plan, 3);
      const support::LayoutResult whole = support::learn(run);
      run.plan.tiles = {2, 2};
      support::expect_equal(support::learn(run), whole);
    }
  }
}

// The store that checks lends copies: what a lease does not cover is no number.
TEST(Tiles, RanksLeaseTheSameOnesAndNoneWhole) {
  ZeroRun run{.ranks = 3, .model = wide_gpt2()};
  const ZeroResult whole = support::learn(run);
  run.level = 3;
  run.tiles = {1, 3};
  support::StoreRecords records(run.ranks);
  ZeroResult cut;
  support::on_zero_ranks(
      run,
      [&](ZeroRank& rank) {
        rank.engine().initialise();
        support::train(rank, 0, run.steps, cut);
        rank.collect(cut);
        const double evaluated = rank.evaluate();
        if (rank.rank() == 0) cut.evaluated = evaluated;
      },
      records.checked());
  support::expect_equal(cut, whole);
  for (int rank = 1; rank < run.ranks; ++rank) EXPECT_TRUE(records.of(rank) == records.of(0));
  const arch::UnitMap map = arch::unit_map(run.model);
  const std::int64_t largest_tile = 512 * 264, vectors = 2048;  // of q, k and v: 792 features in tiles of 256, 256 and 280
  EXPECT_LE(support::most_leased(records.of(0), map.blocks.front(), UnitIndex{map.blocks.back().value + 1}),
            largest_tile + vectors);
}

std::int64_t bytes_of_places(const ZeroRun& run) {
  std::int64_t bytes = 0;
  const RankMemory memory(run.config(), {});
  for (const LedgerTensor& tensor : memory.ledger(0).tensors()) {
    if (tensor.name.starts_with("gathered") || tensor.name == "brought") bytes += tensor.bytes;
  }
  return bytes;
}

TEST(Tiles, TakeSmallerPlaces) {
  ZeroRun run{.ranks = 1, .level = 3, .model = wide_gpt2()};
  run.model.width = run.model.heads * run.model.head_size;
  run.model.tied = false;
  for (const Tier tier : {Tier::device, Tier::disk}) {
    run.parameters_tier = tier;
    run.offload.range_elements = parallel::OffloadOptions::piece;
    run.tiles = {};
    const std::int64_t whole = bytes_of_places(run);
    run.tiles = {1, 2};
    const std::int64_t two = bytes_of_places(run);
    run.tiles = {3, 3};
    EXPECT_LT(two, whole / 2);
    EXPECT_LT(bytes_of_places(run), two);
    run.tiles.larger_than = 1 << 30;
    EXPECT_LE(bytes_of_places(run), whole);
  }
}

/// What a model for reading makes of seven tokens, and what it writes, on ranks that keep parts of its weights.
struct Said {
  std::vector<float> logits;
  std::vector<std::int32_t> text;
  bool operator==(const Said&) const = default;
};

Said read(const ZeroRun& run, const io::Path& checkpoint) {
  Said said;
  comm::run_ranks(run.ranks, {.timeout = 60}, [&](comm::Communicator& world) {
    support::Machine machine(1);
    world.attach(*machine.stream, machine.runtime->team());
    const parallel::Groups groups(world, layout::Mesh(run.plan()));
    Inference inference(run.model, DType::f32, *machine.runtime, *machine.ops, groups);
    inference.load(*checkpoint::open_together(world, checkpoint), machine.runtime->team());
    inference.prepack();
    support::TinyReader reader(inference.context(), machine);
    std::vector<std::int32_t> tokens{5, 1, 64, 0, 33, 7, 12};
    const Tensor text = view(std::span(tokens), Shape{7});
    for (int first = 0; first < 7; ++first) reader.read(text, first, 1);
    Arena workspace("sampling", MemoryKind::workspace), cache("cache", MemoryKind::workspace);
    TextSampler sampler(inference.share());
    sampler.declare(workspace, cache);
    Ledger ledger;
    workspace.commit(*machine.runtime, ledger);
    cache.commit(*machine.runtime, ledger);
    std::vector<std::int32_t> written;
    sampler.run(std::vector<std::int32_t>{3, 1, 4}, {.tokens = 9}, [&](std::int32_t token) {
      written.push_back(token);
      return true;
    });
    if (world.rank() == 0) said = {support::values_of(reader.logits), written};
  });
  return said;
}

TEST(Tiles, ReadersReadAndWriteTheSame) {
  for (const arch::ModelConfig& model : {wide_gpt2(), wide_llama()}) {
    const TempFolder folder;
    io::Path checkpoint;
    support::on_zero_ranks({.ranks = 2, .level = 3, .model = model}, [&](ZeroRank& rank) {
      rank.engine().initialise();
      const auto report = save_run(folder.path(), rank.engine(), {}, Json::Object{}, rank.team());
      if (rank.rank() == 0) checkpoint = report.folder;
    });
    ZeroRun run{.ranks = 1, .model = model};
    const Said whole = read(run, checkpoint);
    run.level = 3;
    for (run.ranks = 1; run.ranks <= 3; run.ranks += 2) {
      for (const Tiles& tiles : all_tiles) {
        run.tiles = tiles;
        EXPECT_TRUE(read(run, checkpoint) == whole) << to_string(tiles);
      }
    }
  }
}

// Weights in the host's memory, and tiles put together in the device's, which the host cannot reach.
TEST(Tiles, OfADeviceOfItsOwnHaveTheBitsToo) {
  const auto learn = [&](support::Machine& machine, const Tiles& tiles, Tier tier) {
    EngineConfig config = support::tiny_config(wide_gpt2());
    config.model.layers = 1;
    config.plan.tiles = tiles;
    config.plan.parameters.tier = tier;
    config.offload.range_elements = parallel::OffloadOptions::piece;
    const auto engine = support::make_engine(config, machine);
    const support::Batches batches(1, config.samples, config.positions, config.model.vocabulary);
    const StepResult result = engine->step(batches.all(), batches.targets(), 0, 1e-2);
    return std::vector<double>{result.loss, result.gradient_norm, engine->evaluate(batches.all()[0])};
  };
  support::Machine near(2);
  support::FarMachine far(2);
  const std::vector<double> whole = learn(near, {}, Tier::device);
  for (const Tiles& tiles : {Tiles{1, 2}, {2, 1}}) EXPECT_EQ(learn(far.machine(), tiles, Tier::host), whole) << to_string(tiles);
}

}  // namespace
}  // namespace lockstep::train
