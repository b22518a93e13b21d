// Training state in a file or in the host's memory between its uses: the bits of state that lies on the device.

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "support/far_device.h"
#include "support/saved_run.h"
#include "support/temp_folder.h"

namespace lockstep::train {
namespace {

using layout::Tier;
using support::LayoutRank;
using support::LayoutResult;
using support::LayoutRun;

const std::string optimizer = "offload_optimizer=nvme", weights_and_kept = "offload_params=nvme,offload_activations=nvme",
                  everything = optimizer + "," + weights_and_kept;
const std::string optimizer_to_host = "offload_optimizer=cpu",
                  everything_to_host = "offload_optimizer=cpu,offload_params=cpu,offload_activations=cpu";

class Offload : public testing::Test {
 protected:
  /// The same run with some of its state elsewhere, brought in ranges that do not divide the units.
  LayoutRun moved(const LayoutRun& run, const std::string& words) const {
    LayoutRun moved = support::with(run, words);
    moved.offload.folder = folder_.path();
    moved.offload.range_elements = parallel::OffloadOptions::piece;
    return moved;
  }
  void expect_bits(const LayoutRun& run, const std::vector<std::string>& layouts) const {
    support::expect_bits_of(support::learn(run), moved(run, ""), layouts);
  }
  TempFolder folder_;
};

std::vector<LayoutRun> runs() { return support::in_all_types({support::tiny_model(), support::tiny_llama()}); }

/// With one of the runs.
class OffloadOf : public Offload, public testing::WithParamInterface<std::size_t> {
 protected:
  LayoutRun run_ = runs()[GetParam()];
};
INSTANTIATE_TEST_SUITE_P(Runs, OffloadOf, testing::Range(std::size_t{0}, runs().size()));

TEST_P(OffloadOf, HasTheBitsOfMemoryOnAllRanksAndLevels) {
  for (const std::string ranks : {"dp=1", "dp=2", "dp=3", "dp=4"}) {
    expect_bits(support::with(run_, ranks), {"zero=0," + optimizer, "zero=1," + optimizer, "zero=2," + optimizer,
                                             "zero=3," + optimizer, (ranks == "dp=1" ? "zero=0," : "zero=3,") + everything});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_P(OffloadOf, ToTheHostHasTheBitsToo) {
  expect_bits(support::with(run_, "dp=2"),
              {"zero=0," + optimizer_to_host, "zero=3," + optimizer_to_host, "zero=3," + everything_to_host});
}

TEST_P(OffloadOf, ActivationsAloneHaveTheBitsToo) {
  run_.model.layers = 7;
  run_.steps = 3;
  run_.offload.folder = folder_.path();
  for (const char* recompute : {"recompute=none", "recompute=selective", "recompute=full", "recompute=every:3"})
    support::expect_bits_of(support::with(run_, recompute), {"offload_activations=nvme", "offload_activations=cpu"});
}

TEST_P(OffloadOf, WeightsAloneHaveTheBitsToo) {
  for (const char* ranks : {"dp=1", "dp=3,zero=3"}) expect_bits(support::with(run_, ranks), {weights_and_kept});
}

// Hosts share out by themselves, buckets and micro-batches are reduced apart.
TEST_F(Offload, AgreesWithOtherLayouts) {
  expect_bits(
      {.layout = "dp=4,gas=2,zero=2,zero_group=node,reduce=microbatch,bucket=4096", .weights = support::bf16_with_masters},
      {optimizer});
}

TEST_F(Offload, AgreesHoweverGradientsAreAddedUp) {
  LayoutRun run;
  run.model.tied = false;
  for (const char* ranks : {"dp=1", "dp=3,zero=3"}) {
    for (const char* batches : {"gas=1", "gas=2", "gas=3"}) {
      for (const char* overlap : {"overlap=true", "overlap=false"})
        expect_bits(support::with(support::with(support::with(run, ranks), batches), overlap), {everything});
    }
  }
}

TEST_F(Offload, AgreesWhateverIsLeasedAheadAndAtATime) {
  std::vector<std::string> ways;
  for (const char* prefetch : {"prefetch=0,", "prefetch=1,", "prefetch=2,", "prefetch=3,"}) {
    for (const char* reshard : {"reshard=true,", "reshard=false,"}) ways.push_back(prefetch + (reshard + everything));
  }
  for (const char* ranks : {"dp=1,gas=2,recompute=full", "dp=2,gas=2,recompute=full,zero=3"}) {
    for (const layout::LeaseSize leases : {layout::LeaseSize::block, layout::LeaseSize::sub_layer})
      expect_bits({.layout = ranks, .leases = leases}, ways);
  }
}

// Both ends of a tied matrix, several chunks on a rank, and weight gradients that are made later, which stay in memory.
TEST_F(Offload, AgreesInPipelines) {
  for (const std::string schedule : {"1f1b", "gpipe", "interleaved", "zb-h1"}) {
    for (const bool tied : {true, false}) {
      LayoutRun run{.layout = "pp=2,gas=4,schedule=" + schedule};
      run.model.layers = 4;
      run.model.tied = tied;
      for (const char* ranks : {"dp=1", "dp=2,zero=3"})
        expect_bits(support::with(run, ranks), {schedule == "zb-h1" ? optimizer + ",offload_params=nvme" : everything});
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
    for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters})
      expect_bits({.layout = "dp=2,gas=2", .weights = weights, .optimizer = method}, {optimizer});
  }
}

TEST_F(Offload, NeedsNeitherARingNorDirectAccess) {
  const LayoutRun run{.layout = "dp=2,gas=2", .weights = support::bf16_with_masters};
  const LayoutResult expected = support::learn(run);
  for (const io::SpillWays& ways : {io::SpillWays{true, false}, io::SpillWays{false, true}, io::SpillWays{false, false}}) {
    LayoutRun apart = moved(run, optimizer);
    apart.offload.ways = ways;
    support::expect_equal(support::learn(apart), expected);
  }
}

TEST_F(Offload, TakesTheMemoryOfItsBuffers) {
  LayoutRun run{.layout = "gas=2", .weights = support::bf16_with_masters, .samples = 64};
  run.model.layers = 8;
  const auto bytes = [](const LayoutRun& of, MemoryKind kind) { return RankMemory(of.config(), {}).ledger(0).total(kind); };
  const RankMemory memory(moved(run, everything).config(), {});
  constexpr std::int64_t range = parallel::OffloadOptions::piece, block = 4096;
  // Weights in bf16; a gradient, a copy and two slots of a range in f32; what aligns them.
  EXPECT_EQ(bytes(moved(run, everything), MemoryKind::optimizer), 3 * (range * (2 + 4 * 4) + block) + 64);
  EXPECT_GE(memory.spill.bytes_of("master weights") + memory.spill.bytes_of("optimizer slots"),
            bytes(run, MemoryKind::optimizer) - 64);
  EXPECT_GE(memory.spill.bytes_of("weights"), bytes(run, MemoryKind::parameters));
  EXPECT_GE(memory.spill.bytes_of("gradients"), bytes(run, MemoryKind::gradients));
  // A few of the eight blocks, and the ends of the model.
  for (const MemoryKind kind : {MemoryKind::gradients, MemoryKind::parameters, MemoryKind::activations})
    EXPECT_LT(bytes(moved(run, everything), kind), bytes(run, kind) / 2) << name_of(kind);
}

/// The file of a tensor file's save by all ranks.
std::vector<std::string> saved_by(LayoutRank& rank, const io::Path& folder, std::int64_t step) {
  const io::Path saved =
      save_run(folder, rank.engine(), {.step = step, .next_sample = 6 * step}, Json::Object{}, rank.team()).folder;
  return {io::read_file(saved / checkpoint::model_file), io::read_file(saved / checkpoint::optimizer_file)};
}

/// Trains steps [first, end), from the files in `from` where there are some, and leaves files in `to`.
std::vector<std::string> go_on(const LayoutRun& run, const io::Path& from, const io::Path& to, int first, int end) {
  std::vector<std::string> files;
  on_layout(run, [&](LayoutRank& rank) {
    rank.engine().initialise();
    if (!from.empty()) {
      support::load(rank, from / "checkpoints" / checkpoint::folder_name(first));
      rank.engine().check_state();
    } else if (zero_level(run.plan()) == 0) {
      rank.engine().broadcast_state();
    }
    LayoutResult result;
    support::take_steps(rank, first, end, result);
    const std::vector<std::string> saved = saved_by(rank, to, end);
    if (rank.lead()) files = saved;
  });
  return files;
}

TEST_F(Offload, FilesAreThoseOfMemoryAndGoBothWays) {
  for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters}) {
    for (const char* layout : {"dp=3,gas=2", "dp=3,gas=2,zero=2"}) {
      const LayoutRun run{.layout = layout, .weights = weights};
      const TempFolder files;
      for (const char* run_folder : {"whole", "memory", "disk", "then disk", "then memory"})
        std::filesystem::create_directory(files / run_folder);
      const std::vector<std::string> whole = go_on(run, {}, files / "whole", 0, 6);
      go_on(run, {}, files / "memory", 0, 3);
      go_on(moved(run, optimizer), {}, files / "disk", 0, 3);
      EXPECT_TRUE(go_on(moved(run, optimizer), files / "memory", files / "then disk", 3, 6) == whole);
      EXPECT_TRUE(go_on(run, files / "disk", files / "then memory", 3, 6) == whole);
    }
  }
}

TEST_F(Offload, ADumpOfAStepHasTheSameValues) {
  const LayoutRun run{.layout = "dp=2,gas=2", .weights = support::bf16_with_masters};
  const auto dump = [&](const LayoutRun& of, const char* name) {
    on_layout(of, [&](LayoutRank& rank) {
      rank.engine().initialise();
      const support::StepBatches batches = rank.batches(0);
      rank.step(batches, 0);
      dump_step(folder_ / name, rank.engine(), batches.mine, 1);
    });
    return io::read_file(folder_ / name);
  };
  EXPECT_TRUE(dump(moved(run, optimizer), "disk") == dump(run, "memory"));
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
  const LayoutRun run = moved({.layout = "gas=2", .weights = support::bf16_with_masters}, everything);
  std::int64_t end = 0;
  for (const std::string kind : {"weights", "gradients", "master weights", "optimizer slots"}) {
    on_layout(run, [&](LayoutRank& rank) {
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
  LayoutRun run = moved({}, optimizer);
  run.offload.folder = folder_ / "missing";
  EXPECT_THROW(on_layout(run, [](LayoutRank&) {}), UserError);
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
  support::Machine near(2);
  const Left expected = left_by(config, near);
  for (const Tier tier : {Tier::host, Tier::disk}) {
    support::FarMachine far(2);
    config.plan.optimizer.tier = config.plan.parameters.tier = config.plan.activations = tier;
    config.offload = moved(run_, optimizer).offload;
    EXPECT_TRUE(left_by(config, far.machine()) == expected);
  }
}

}  // namespace
}  // namespace lockstep::train
