// Matrices that are leased tile by tile: the bits of whole ones.

#include <gtest/gtest.h>

#include "support/checking_store.h"
#include "support/far_device.h"
#include "support/saved_run.h"
#include "support/temp_folder.h"
#include "train/sample.h"

namespace lockstep::train {
namespace {

using layout::Tier;
using layout::Tiles;
using support::LayoutResult;
using support::LayoutRun;

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

std::vector<LayoutRun> runs() { return support::in_all_types({wide_gpt2(), wide_llama()}); }

/// With one of the runs.
class TilesOf : public testing::TestWithParam<std::size_t> {
 protected:
  LayoutRun run_ = runs()[GetParam()];
  TempFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Runs, TilesOf, testing::Range(std::size_t{0}, runs().size()));

TEST_P(TilesOf, HaveTheBitsOfWholeMatrices) {
  const auto expect_bits = [&](const char* ranks, int steps, const std::vector<std::string>& tiles) {
    run_.steps = steps;
    support::expect_bits_of(support::with(run_, ranks), tiles);
  };
  expect_bits("dp=1", 2, {"tiles=2x2", "zero=3,tiles=1x2", "zero=3,tiles=3x3"});
  expect_bits("dp=2", 10, {"zero=1,tiles=2x2", "zero=3,tiles=1x2", "zero=3,tiles=2x1"});
  expect_bits("dp=3", 2, {"zero=2,tiles=2x2", "zero=3,tiles=1x2", "zero=3,tiles=3x3"});
  expect_bits("dp=4", 2, {"zero=3,tiles=2x2", "zero=3,tiles=1x2", "zero=3,tiles=2x1"});
}

TEST_P(TilesOf, ThatLieElsewhereHaveTheBitsToo) {
  run_.offload.folder = folder_.path();
  run_.offload.range_elements = parallel::OffloadOptions::piece;  // ranges begin and end within rows
  run_.steps = 2;
  for (const char* ranks : {"dp=1", "dp=3,zero=3"}) {
    support::expect_bits_of(support::with(run_, ranks),
                            {"tiles=1x2,offload_params=nvme", "tiles=2x1,offload_params=cpu,offload_optimizer=cpu",
                             "tiles=3x3,offload_params=nvme,offload_optimizer=nvme"});
  }
}

TEST(Tiles, ChangeNoBitWhateverIsLeasedAheadAndMadeAgain) {
  for (const arch::ModelConfig& model : {wide_gpt2(), wide_llama()}) {
    LayoutRun run{.layout = "dp=2,gas=2", .model = model, .steps = 2};
    run.model.layers = 3;
    support::expect_bits_of(support::learn(run), support::with(run, "zero=3,tiles=2x2"),
                            {"prefetch=1", "prefetch=3,recompute=selective", "prefetch=1,recompute=full",
                             "prefetch=3,recompute=every:2", "prefetch=0,recompute=every:2,reshard=false"});
  }
}

// What the last block would make again is still there.
TEST(Tiles, ChangeNoBitWhereBackwardIsDirectlyBehindForward) {
  for (const char* layout : {"dp=2,recompute=selective", "dp=2,recompute=full"})
    support::expect_bits_of({.layout = layout, .model = wide_llama()}, {"zero=3,tiles=2x2"});
}

TEST(Tiles, ChangeNoBitInPipelines) {
  for (const char* layout : {"dp=2,gas=4,pp=2", "dp=2,gas=4,pp=2,schedule=zb-h1"}) {
    for (const bool tied : {true, false}) {
      LayoutRun run{.layout = layout, .model = wide_gpt2(), .steps = 2};
      run.model.tied = tied;
      support::expect_bits_of(run, {"zero=3,tiles=2x2"});
    }
  }
}

// Tiles are those of a rank's part of a layer. Layers are twice as wide here, so that a part is as wide as one rank's layer.
TEST(Tiles, ChangeNoBitWhereRanksDivideLayersAndSequences) {
  for (const arch::ModelConfig& narrow : {wide_gpt2(), wide_llama()}) {
    arch::ModelConfig model = narrow;
    model.heads = 6;
    model.kv_heads = model.gated ? 2 : 6;
    model.ffn_width *= 2;
    for (const char* layout : {"dp=2,tp=2,gas=2,zero=3", "tp=2,cp=2,sequence,gas=2,zero=3"})
      support::expect_bits_of({.layout = layout, .model = model, .optimizer = support::smooth, .samples = 2}, {"tiles=2x2"});
  }
}

// The store that checks lends copies: what a lease does not cover is no number.
TEST(Tiles, RanksLeaseTheSameOnesAndNoneWhole) {
  const LayoutRun run{.layout = "dp=3,gas=2", .model = wide_gpt2()};
  support::StoreRecords records(3);
  support::expect_equal(support::learn(support::with(run, "zero=3,tiles=1x3"), records.checked()), support::learn(run));
  for (int rank = 1; rank < 3; ++rank) EXPECT_TRUE(records.of(rank) == records.of(0));
  const arch::UnitMap map = arch::unit_map(run.model);
  const std::int64_t largest_tile = 512 * 264, vectors = 2048;  // of q, k and v: 792 features in tiles of 256, 256 and 280
  EXPECT_LE(support::most_leased(records.of(0), map.blocks.front(), UnitIndex{map.blocks.back().value + 1}),
            largest_tile + vectors);
}

std::int64_t bytes_of_places(const LayoutRun& run) {
  std::int64_t bytes = 0;
  const RankMemory memory(run.config(), {});
  for (const LedgerTensor& tensor : memory.ledger(0).tensors()) {
    if (tensor.name.starts_with("gathered") || tensor.name == "brought") bytes += tensor.bytes;
  }
  return bytes;
}

TEST(Tiles, TakeSmallerPlaces) {
  LayoutRun run{.layout = "zero=3,gas=2", .model = wide_gpt2()};
  run.model.width = run.model.heads * run.model.head_size;
  run.model.tied = false;
  run.offload.range_elements = parallel::OffloadOptions::piece;
  for (const char* tier : {"offload_params=none", "offload_params=nvme"}) {
    const auto bytes = [&](const std::string& tiles) { return bytes_of_places(support::with(support::with(run, tier), tiles)); };
    const std::int64_t whole = bytes("tiles=1x1"), two = bytes("tiles=1x2");
    EXPECT_LT(two, whole / 2);
    EXPECT_LT(bytes("tiles=3x3"), two);
    EXPECT_LE(bytes("tiles=3x3,max_tile_bytes=1073741824"), whole);
  }
}

/// What a model for reading makes of seven tokens, and what it writes, on ranks that keep parts of its weights.
struct Said {
  std::vector<float> logits;
  std::vector<std::int32_t> text;
  bool operator==(const Said&) const = default;
};

Said read(const LayoutRun& run, const io::Path& checkpoint) {
  Said said;
  support::on_readers(run, checkpoint, [&](const support::Reading& reading) {
    Arena workspace("sampling", MemoryKind::workspace), cache("cache", MemoryKind::workspace);
    TextSampler sampler(reading.inference.share());
    sampler.declare(workspace, cache);
    Ledger ledger;
    workspace.commit(reading.runtime, ledger);
    cache.commit(reading.runtime, ledger);
    std::vector<std::int32_t> written;
    sampler.run(std::vector<std::int32_t>{3, 1, 4}, {.tokens = 9}, [&](std::int32_t token) {
      written.push_back(token);
      return true;
    });
    if (reading.lead) said = {support::values_of(reading.logits), written};
  });
  return said;
}

TEST(Tiles, ReadersReadAndWriteTheSame) {
  for (const arch::ModelConfig& model : {wide_gpt2(), wide_llama()}) {
    const TempFolder folder;
    const io::Path checkpoint = support::save({.layout = "dp=2,zero=3", .model = model}, folder.path(), 0).folder;
    const Said whole = read({.model = model}, checkpoint);
    for (const char* ranks : {"dp=1,zero=3", "dp=3,zero=3"}) {
      for (const char* tiles : {"tiles=1x2", "tiles=2x1", "tiles=3x3"})
        EXPECT_TRUE(read(support::with({.layout = ranks, .model = model}, tiles), checkpoint) == whole) << ranks << tiles;
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
