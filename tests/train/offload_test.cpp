// Training state in a file or in the host's memory between its uses: the bits of state that lies on the device.

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "support/far_device.h"
#include "support/temp_folder.h"
#include "support/zero_run.h"
#include "train/state.h"

namespace lockstep::train {
namespace {

using layout::Tier;
using support::ZeroRank;
using support::ZeroResult;
using support::ZeroRun;

class Offload : public testing::Test {
 protected:
  /// The same run with the optimizer's state and gradients elsewhere, brought in ranges that do not divide the units.
  ZeroRun moved(ZeroRun run, Tier tier = Tier::disk) const {
    run.optimizer_tier = tier;
    run.offload.folder = folder_.path();
    run.offload.range_elements = parallel::OffloadOptions::piece;
    return run;
  }
  /// And its weights, and what its blocks keep.
  ZeroRun all_moved(const ZeroRun& run, Tier tier = Tier::disk) const {
    ZeroRun all = moved(run, tier);
    all.parameters_tier = tier;
    if (run.schedule != "zb-h1") all.activations_tier = tier;
    return all;
  }
  TempFolder folder_;
};

std::vector<ZeroRun> runs() {
  std::vector<ZeroRun> all;
  for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama()}) {
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
class OffloadOf : public Offload, public testing::WithParamInterface<std::size_t> {
 protected:
  ZeroRun run_ = runs()[GetParam()];
};
INSTANTIATE_TEST_SUITE_P(Runs, OffloadOf, testing::Range(std::size_t{0}, runs().size()));

TEST_P(OffloadOf, HasTheBitsOfMemoryOnAllRanksAndLevels) {
  for (run_.ranks = 1; run_.ranks <= 4; ++run_.ranks) {
    run_.level = 0;
    const ZeroResult expected = support::learn(run_);
    for (run_.level = 0; run_.level <= 3; ++run_.level) support::expect_equal(support::learn(moved(run_)), expected);
    run_.level = run_.ranks == 1 ? 0 : 3;
    support::expect_equal(support::learn(all_moved(run_)), expected);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_P(OffloadOf, ToTheHostHasTheBitsToo) {
  for (run_.level = 0; run_.level <= 3; run_.level += 3)
    support::expect_equal(support::learn(moved(run_, Tier::host)), support::learn(run_));
  support::expect_equal(support::learn(all_moved(run_, Tier::host)), support::learn(run_));
}

TEST_P(OffloadOf, ActivationsAloneHaveTheBitsToo) {
  run_.model.layers = 7;
  for (const layout::Recompute& recompute : {layout::Recompute{},
                                             {layout::Recompute::Kind::selective},
                                             {layout::Recompute::Kind::full},
                                             {layout::Recompute::Kind::full, 3}}) {
    run_.recompute = recompute;
    run_.ranks = 1;
    run_.steps = 3;
    const ZeroResult expected = support::learn(run_);
    for (const Tier tier : {Tier::disk, Tier::host}) {
      ZeroRun moved = run_;
      moved.activations_tier = tier;
      moved.offload.folder = folder_.path();
      support::expect_equal(support::learn(moved), expected);
    }
  }
}

TEST_P(OffloadOf, WeightsAloneHaveTheBitsToo) {
  for (run_.ranks = 1; run_.ranks <= 3; run_.ranks += 2) {
    run_.level = run_.ranks == 1 ? 0 : 3;
    ZeroRun weights = all_moved(run_);
    weights.optimizer_tier = Tier::device;
    support::expect_equal(support::learn(weights), support::learn(run_));
  }
}

// Hosts share out by themselves, buckets and micro-batches are reduced apart.
TEST_F(Offload, AgreesWithOtherLayouts) {
  ZeroRun run;
  run.ranks = 4;
  run.level = 2;
  run.over = layout::CutOver::host;
  run.weights = support::bf16_with_masters;
  run.reduce = layout::ReduceEvery::microbatch;
  run.gradients.bucket_bytes = 4096;
  support::expect_equal(support::learn(moved(run)), support::learn(run));
}

TEST_F(Offload, AgreesHoweverGradientsAreAddedUp) {
  ZeroRun run;
  run.model.tied = false;
  for (run.ranks = 1; run.ranks <= 3; run.ranks += 2) {
    run.level = run.ranks == 1 ? 0 : 3;
    for (run.microbatches = 1; run.microbatches <= 3; ++run.microbatches) {
      for (const bool overlap : {true, false}) {
        run.gradients.overlap = overlap;
        support::expect_equal(support::learn(all_moved(run)), support::learn(run));
      }
    }
  }
}

TEST_F(Offload, AgreesWhateverIsLeasedAheadAndAtATime) {
  ZeroRun run;
  run.recompute = {.kind = layout::Recompute::Kind::full, .every = 1};
  for (run.ranks = 1; run.ranks <= 2; ++run.ranks) {
    run.level = run.ranks == 1 ? 0 : 3;
    for (const layout::LeaseSize leases : {layout::LeaseSize::block, layout::LeaseSize::sub_layer}) {
      run.leases = leases;
      for (run.prefetch = 0; run.prefetch <= 3; ++run.prefetch) {
        for (const bool reshard : {true, false}) {
          run.reshard_after_forward = reshard;
          support::expect_equal(support::learn(all_moved(run)), support::learn(run));
        }
      }
    }
  }
}

// Both ends of a tied matrix, several chunks on a rank, and weight gradients that are made later, which stay in memory.
TEST_F(Offload, AgreesInPipelines) {
  for (const char* schedule : {"1f1b", "gpipe", "interleaved", "zb-h1"}) {
    for (const bool tied : {true, false}) {
      ZeroRun run;
      run.model.layers = 4;
      run.model.tied = tied;
      run.stages = 2;
      run.schedule = schedule;
      run.microbatches = 4;
      for (run.ranks = 1; run.ranks <= 2; ++run.ranks) {
        run.level = run.ranks == 1 ? 0 : 3;
        support::expect_equal(support::learn(all_moved(run)), support::learn(run));
      }
    }
  }
}

TEST_F(Offload, KnowsAllMethods) {
  std::vector<OptimizerSettings> methods(3);
  methods[0] = {.name = "sgd", .momentum = 0.9F};
  methods[1] = {.name = "sgd"};  // without slots
  methods[2].moments = DType::bf16;
  methods[2].rounding = Rounding::stochastic;
  for (const OptimizerSettings& method : methods) {
    for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters}) {
      ZeroRun run;
      run.optimizer = method;
      run.weights = weights;
      support::expect_equal(support::learn(moved(run)), support::learn(run));
    }
  }
}

TEST_F(Offload, NeedsNeitherARingNorDirectAccess) {
  ZeroRun run;
  run.weights = support::bf16_with_masters;
  const ZeroResult expected = support::learn(run);
  for (const io::SpillWays& ways : {io::SpillWays{true, false}, io::SpillWays{false, true}, io::SpillWays{false, false}}) {
    ZeroRun apart = moved(run);
    apart.offload.ways = ways;
    support::expect_equal(support::learn(apart), expected);
  }
}

TEST_F(Offload, TakesTheMemoryOfItsBuffers) {
  ZeroRun run;
  run.ranks = 1;
  run.samples = 64;
  run.model.layers = 8;
  run.weights = support::bf16_with_masters;
  const auto bytes = [](const ZeroRun& of, MemoryKind kind) { return RankMemory(of.config(), {}).ledger(0).total(kind); };
  const RankMemory memory(all_moved(run).config(), {});
  constexpr std::int64_t range = parallel::OffloadOptions::piece, block = 4096;
  // Weights in bf16; a gradient, a copy and two slots of a range in f32; what aligns them.
  EXPECT_EQ(bytes(all_moved(run), MemoryKind::optimizer), 3 * (range * (2 + 4 * 4) + block) + 64);
  EXPECT_GE(memory.spill.bytes_of("master weights") + memory.spill.bytes_of("optimizer slots"),
            bytes(run, MemoryKind::optimizer) - 64);
  EXPECT_GE(memory.spill.bytes_of("weights"), bytes(run, MemoryKind::parameters));
  EXPECT_GE(memory.spill.bytes_of("gradients"), bytes(run, MemoryKind::gradients));
  // A few of the eight blocks, and the ends of the model.
  for (const MemoryKind kind : {MemoryKind::gradients, MemoryKind::parameters, MemoryKind::activations})
    EXPECT_LT(bytes(all_moved(run), kind), bytes(run, kind) / 2) << name_of(kind);
}

/// The file of a tensor file's save by all ranks.
std::vector<std::string> saved_by(ZeroRank& rank, const io::Path& folder, std::int64_t step) {
  const io::Path saved =
      save_run(folder, rank.engine(), {.step = step, .next_sample = 6 * step}, Json::Object{}, rank.team()).folder;
  return {io::read_file(saved / checkpoint::model_file), io::read_file(saved / checkpoint::optimizer_file)};
}

/// Trains steps [first, end), from the files in `from` where there are some, and leaves files in `to`.
std::vector<std::string> go_on(const ZeroRun& run, const io::Path& from, const io::Path& to, int first, int end) {
  std::vector<std::string> files;
  on_zero_ranks(run, [&](ZeroRank& rank) {
    rank.engine().initialise();
    if (!from.empty()) {
      const checkpoint::Reader reader(from / "checkpoints" / fmt::format("step_{}", first));
      load_run(reader, rank.engine(), rank.engine().groups().all(), rank.team());
      rank.engine().check_state();
    } else if (run.level == 0) {
      rank.engine().broadcast_state();
    }
    ZeroResult result;
    support::train(rank, first, end, result);
    const std::vector<std::string> saved = saved_by(rank, to, end);
    if (rank.rank() == 0) files = saved;
  });
  return files;
}

TEST_F(Offload, FilesAreThoseOfMemoryAndGoBothWays) {
  for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters}) {
    ZeroRun run;
    run.ranks = 3;
    run.weights = weights;
    for (run.level = 0; run.level <= 2; run.level += 2) {
      const TempFolder files;
      for (const char* run_folder : {"whole", "memory", "disk", "then disk", "then memory"})
        std::filesystem::create_directory(files / run_folder);
      const std::vector<std::string> whole = go_on(run, {}, files / "whole", 0, 6);
      go_on(run, {}, files / "memory", 0, 3);
      go_on(moved(run), {}, files / "disk", 0, 3);
      EXPECT_TRUE(go_on(moved(run), files / "memory", files / "then disk", 3, 6) == whole);
      EXPECT_TRUE(go_on(run, files / "disk", files / "then memory", 3, 6) == whole);
    }
  }
}

TEST_F(Offload, ADumpOfAStepHasTheSameValues) {
  ZeroRun run;
  run.weights = support::bf16_with_masters;
  const auto dump = [&](const ZeroRun& of, const char* name) {
    on_zero_ranks(of, [&](ZeroRank& rank) {
      rank.engine().initialise();
      const support::ZeroBatches batches = rank.batches(0);
      rank.step(batches, 0);
      dump_step(folder_ / name, rank.engine(), batches.mine, 1);
    });
    return io::read_file(folder_ / name);
  };
  EXPECT_TRUE(dump(moved(run), "disk") == dump(run, "memory"));
}

/// Turns a bit of this process's file for offloaded state, which has no name in the folder.
void damage(const io::Path& folder, std::uint64_t offset) {
  const std::string start = std::filesystem::canonical(folder).string() + "/";
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string file_of = std::filesystem::read_symlink(entry.path(), gone).string();
    if (!file_of.starts_with(start) || !file_of.ends_with(" (deleted)")) continue;
    const int file = ::open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
    unsigned char byte = 0;
    ASSERT_EQ(::pread(file, &byte, 1, static_cast<off_t>(offset)), 1);
    byte ^= 0x10;
    ASSERT_EQ(::pwrite(file, &byte, 1, static_cast<off_t>(offset)), 1);
    ::close(file);
    return;
  }
  FAIL() << "there is no file for offloaded state";
}

std::string fails(const std::function<void()>& use) {
  try {
    use();
  } catch (const SystemError& error) {
    return error.what();
  }
  return "";
}

TEST_F(Offload, AFlippedBitIsNoticedAndNamed) {
  ZeroRun run;
  run.ranks = 1;
  run.weights = support::bf16_with_masters;
  run = all_moved(run);
  std::int64_t end = 0;
  for (const std::string kind : {"weights", "gradients", "master weights", "optimizer slots"}) {
    on_zero_ranks(run, [&](ZeroRank& rank) {
      rank.engine().initialise();
      rank.step(0);
      damage(folder_.path(), static_cast<std::uint64_t>(end + 9));
      const std::string said = fails([&] {
        if (kind != "gradients") rank.step(1);
        rank.engine().state().for_each({.gradients = true}, [](const parallel::StateRange&) {});
      });
      EXPECT_NE(said.find(fmt::format("offloaded {} of {}, elements 0 to ", kind, rank.engine().state().units()[0].name)),
                std::string::npos)
          << said;
      EXPECT_NE(said.find("gives other bytes than were written"), std::string::npos) << said;
    });
    end += RankMemory(run.config(), {}).spill.bytes_of(kind);
  }
}

TEST_F(Offload, AFolderThatIsMissingIsAnErrorBeforeTraining) {
  ZeroRun run = moved({});
  run.ranks = 1;
  run.offload.folder = folder_ / "missing";
  EXPECT_THROW(on_zero_ranks(run, [](ZeroRank&) {}), UserError);
}

/// What a short run says and leaves in files, on any device.
struct Left {
  std::vector<double> numbers;
  std::vector<std::string> files;
  bool operator==(const Left&) const = default;
};
Left left_by(const EngineConfig& config, support::Machine& machine) {
  const auto engine = support::make_engine(config, machine);
  const support::Batches batches(config.plan.microbatches, config.samples, config.positions, config.model.vocabulary);
  Left left;
  for (std::int64_t step = 0; step < 10; ++step) {
    const StepResult result = engine->step(batches.all(), batches.targets(), step, 1e-2);
    left.numbers.insert(left.numbers.end(), {result.loss, result.gradient_norm});
  }
  const TempFolder folder;
  const io::Path saved =
      save_run(folder.path(), *engine, {.step = 10, .next_sample = 30}, Json::Object{}, machine.runtime->team()).folder;
  for (const auto name : {checkpoint::model_file, checkpoint::optimizer_file}) left.files.push_back(io::read_file(saved / name));
  return left;
}

// The copies: nothing but kernels and copies touches the device's memory, and nothing of the host's is read by kernels.
TEST_P(OffloadOf, OfAFarDeviceIsCopied) {
  EngineConfig config = run_.config();
  config.plan.dp = 1;
  support::Machine near(2);
  const Left expected = left_by(config, near);
  for (const Tier tier : {Tier::host, Tier::disk}) {
    support::FarMachine far(2);
    config.plan.optimizer.tier = config.plan.parameters.tier = config.plan.activations = tier;
    config.offload = moved(run_).offload;
    EXPECT_TRUE(left_by(config, far.machine()) == expected);
  }
}

}  // namespace
}  // namespace lockstep::train
