// Ranks that save and read one checkpoint together, in any layout.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <mutex>

#include "arch/parameters.h"
#include "base/rng.h"
#include "checkpoint/find.h"
#include "checkpoint/held_unit.h"
#include "checkpoint/replicated.h"
#include "checkpoint/sample.h"
#include "comm/thread/thread_world.h"
#include "support/random_models.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using comm::Communicator;

const std::vector<std::string> weights{""};
const std::vector<std::string> moments{".exp_avg", ".exp_avg_sq"};

void on_ranks(int ranks, const std::function<void(Communicator&)>& body) { comm::run_ranks(ranks, {.timeout = 60}, body); }

/// `tensor` ranks split the model's tensors, `data` ranks hold the same.
struct Layout {
  int tensor = 1, data = 1;
  int ranks() const { return tensor * data; }
};

/// What one rank holds of a model, and which element of which tensor each value is.
class Held {
 public:
  Held(const arch::ModelConfig& config, const Layout& layout, Communicator& world)
      : units_(arch::units_of(arch::unit_table(config), {world.rank() % layout.tensor, layout.tensor})),
        replicas_(world.split(world.rank() % layout.tensor, world.rank())) {
    for (const layout::Unit& unit : units_) {
      for (std::vector<float>& values : values_.emplace_back()) values.assign(static_cast<std::size_t>(unit.elements), 0);
    }
  }

  Communicator& replicas() { return *replicas_; }
  std::vector<LogicalTensor> table(std::span<const std::string> suffixes) const {
    return tensors_of(units_, DType::f32, suffixes);
  }
  std::vector<UnitBuffer> buffers(bool optimizer) {
    std::vector<UnitBuffer> all;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const auto add = [&](std::size_t kind, std::string_view suffix) {
        all.push_back({&units_[u], view(std::span(values_[u][kind]), Shape{units_[u].elements}), suffix});
      };
      if (!optimizer) {
        add(0, "");
      } else {
        add(1, moments[0]);
        add(2, moments[1]);
      }
    }
    return all;
  }
  /// Calls visit(value, what it is in every layout).
  void for_each(const std::function<void(float&, float)>& visit) {
    for (const bool optimizer : {false, true}) {
      for (const UnitBuffer& buffer : buffers(optimizer)) {
        for (const HeldTensor& held : hold(*buffer.unit, {0, buffer.unit->elements}, buffer.values, buffer.suffix)) {
          const CounterRng rng(1, held.tensor.name);
          for (const HeldRange& range : held.ranges) {
            for_each_run(range, [&](std::int64_t first, const Tensor& values) {
              for (float& value : elements<float>(values))
                visit(value, static_cast<float>(rng.uniform(static_cast<std::uint64_t>(first++))));
            });
          }
        }
      }
    }
  }

 private:
  std::vector<layout::Unit> units_;
  std::unique_ptr<Communicator> replicas_;
  std::vector<std::array<std::vector<float>, 3>> values_;
};

void save_model(const fs::path& run, const arch::ModelConfig& config, const Layout& layout) {
  on_ranks(layout.ranks(), [&](Communicator& world) {
    Held held(config, layout, world);
    held.for_each([](float& value, float known) { value = known; });
    Team team(1);
    Writer writer(world, run, 7,
                  {{std::string(model_file), held.table(weights)}, {std::string(optimizer_file), held.table(moments)}});
    for (const bool optimizer : {false, true}) {
      for (const UnitBuffer& buffer : held.buffers(optimizer)) {
        const layout::Range part = layout::range_of(*buffer.unit, held.replicas().rank(), held.replicas().size());
        writer.write(hold(*buffer.unit, part, buffer.values.flat(part.first, part.count), buffer.suffix), team);
      }
    }
    const SaveReport report = writer.commit(sample_manifest(7));
    EXPECT_EQ(report.folder, run / "checkpoints" / "step_7");
    EXPECT_EQ(report.bytes, fs::file_size(report.folder / model_file) + fs::file_size(report.folder / optimizer_file));
  });
}

void expect_read(const fs::path& run, const arch::ModelConfig& config, const Layout& layout) {
  on_ranks(layout.ranks(), [&](Communicator& world) {
    Held held(config, layout, world);
    Team team(1);
    const auto stream = make_immediate_stream();
    const Tensor no_buffer;
    const HostPieces pieces(*stream, no_buffer);
    const auto reader = open_together(world, choose_checkpoint(world, run, "last").folder);
    read_whole(*reader->read_model(held.table(weights)), held.buffers(false), held.replicas(), world, pieces, team);
    read_whole(*reader->read(held.table(moments)), held.buffers(true), held.replicas(), world, pieces, team);
    std::int64_t wrong = 0;
    held.for_each([&](float& value, float known) { wrong += value == known ? 0 : 1; });
    EXPECT_EQ(wrong, 0) << "rank " << world.rank();
  });
}

TEST(CheckpointRanks, AnyLayoutWritesTheSameFilesAndReadsThem) {
  std::mt19937 random(6);
  for (int model = 0; model < 6; ++model) {
    arch::ModelConfig config = support::random_model(random);
    config.width *= 7;
    config.ffn_width *= 5;
    config.tied = model % 2 == 0;
    TempFolder one;
    save_model(one.path(), config, {});
    for (const Layout& layout : {Layout{1, 2}, {1, 3}, {2, 1}, {3, 1}, {4, 1}, {2, 2}, {3, 2}}) {
      SCOPED_TRACE(fmt::format("model {}, {} tensor ranks x {}", model, layout.tensor, layout.data));
      TempFolder other;
      save_model(other.path(), config, layout);
      for (const auto name : {model_file, optimizer_file, manifest_file}) {
        const fs::path path = fs::path("checkpoints") / "step_7" / name;
        EXPECT_TRUE(io::read_file(one.path() / path) == io::read_file(other.path() / path)) << name;
      }
      expect_read(one.path(), config, layout);
      if (HasFailure()) return;
    }
  }
}

/// What `call` throws on each rank.
std::vector<std::string> complaints(int ranks, const std::function<void(Communicator&)>& call) {
  std::vector<std::string> all(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](Communicator& world) {
    all[static_cast<std::size_t>(world.rank())] = complaint_of([&] { call(world); });
    world.barrier();
  });
  return all;
}

/// The half of every tensor that a rank of two holds.
std::vector<HeldTensor> half_of(const std::vector<HeldTensor>& whole, int rank) {
  std::vector<HeldTensor> half;
  for (const HeldTensor& held : whole) {
    const Tensor& all = held.ranges.front().values;
    const layout::Range part = layout::part_of(all.elements(), rank, 2);
    half.push_back({held.tensor, {{part.first, all.flat(part.first, part.count)}}});
  }
  return half;
}

// The file system takes less than the second rank's part needs.
TEST(CheckpointRanks, ARankThatCannotWriteEndsTheSaveOnAll) {
  TempFolder run;
  Sample good(5), next(6);
  Team one(1);
  save(run.path(), good.content(), sample_manifest(1), one);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const std::vector<std::string> said = complaints(2, [&](Communicator& world) {
    Team team(1);
    const std::vector<HeldTensor> whole = next.content().model;
    Writer writer(world, run.path(), 2, {{std::string(model_file), logical(whole)}});
    world.barrier();
    if (world.rank() == 0) {
      const rlimit limit{fs::file_size(run.path() / "checkpoints/.step_2.partial" / model_file) - 4, old.rlim_max};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    world.barrier();
    writer.write(half_of(whole, world.rank()), team);
    writer.commit(sample_manifest(2));
  });
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "rank 1: cannot write", said[0]);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, ".step_2.partial/model.safetensors: File too large", said[0]);
  EXPECT_EQ(said[0], said[1]);
  EXPECT_EQ(entries(run.path() / "checkpoints"), 1U);
  EXPECT_EQ(choose_checkpoint(run.path(), "last").manifest.step, 1);
}

TEST(CheckpointRanks, WhatRankZeroCannotMakeEndsTheSaveOnAll) {
  TempFolder run;
  io::replace_file(run.path() / "checkpoints", "in the way");
  const std::vector<std::string> said = complaints(3, [&](Communicator& world) {
    Writer(world, run.path(), 2, {{std::string(model_file), logical(Sample().content().model)}});
  });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, (run.path() / "checkpoints").string(), said[2]);
  EXPECT_EQ(said, std::vector<std::string>(3, said[0]));
}

TEST(CheckpointRanks, RanksThatSaveIntoDifferentFoldersAreTold) {
  TempFolder run, other;
  const std::vector<std::string> said = complaints(2, [&](Communicator& world) {
    Writer(world, world.rank() == 0 ? run.path() : other.path(), 2,
           {{std::string(model_file), logical(Sample().content().model)}});
  });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "rank 1: " + other.path().string(), said[0]);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "the ranks see different folders", said[0]);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "a file system that all hosts share", said[0]);
  EXPECT_EQ(said[0], said[1]);
  EXPECT_EQ(entries(run.path() / "checkpoints"), 0U);
}

TEST(CheckpointRanks, ElementsThatNoRankWritesAreABug) {
  TempFolder run;
  Sample sample;
  on_ranks(2, [&](Communicator& world) {
    Team team(1);
    Writer writer(world, run.path(), 2, {{std::string(model_file), logical(sample.content().model)}});
    if (world.rank() == 0) writer.write(half_of(sample.content().model, 0), team);
    EXPECT_THROW(writer.commit(sample_manifest(2)), BrokenRule);
    world.barrier();
  });
  EXPECT_EQ(entries(run.path() / "checkpoints"), 0U);
}

class RanksRead : public testing::Test {
 protected:
  RanksRead() { folder = save(run.path(), sample.content(), sample_manifest(3), team).folder; }
  std::vector<std::string> read_halves() {
    return complaints(2, [&](Communicator& world) {
      Sample other(9);
      Team own(1);
      const auto reader = open_together(world, folder);
      read(world, *reader, half_of(other.content().model, world.rank()), own);
    });
  }
  void damage(const fs::path& file) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(-1, std::ios::end);
    stream.put('x');
  }

  TempFolder run;
  Team team{1};
  Sample sample{5};
  fs::path folder;
};

// The damaged byte is in the second rank's half.
TEST_F(RanksRead, ADamagedTensorIsNamedOnAllRanks) {
  EXPECT_EQ(read_halves(), std::vector<std::string>(2, "no error"));
  damage(folder / model_file);
  const std::vector<std::string> said = read_halves();
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "tensor \"odd\" does not match its checksum", said[0]);
  EXPECT_EQ(said[0], said[1]);
}

TEST_F(RanksRead, AFileThatEndsTooSoonIsSaidOnAllRanks) {
  const std::vector<std::string> said = complaints(2, [&](Communicator& world) {
    Sample other(9);
    Team own(1);
    const auto reader = open_together(world, folder);
    world.barrier();
    if (world.rank() == 0) fs::resize_file(folder / model_file, fs::file_size(folder / model_file) - 8);
    world.barrier();
    read(world, *reader, half_of(other.content().model, world.rank()), own);
  });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "rank 1: ", said[0]);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "too soon", said[0]);
  EXPECT_EQ(said[0], said[1]);
}

TEST_F(RanksRead, RankZeroChoosesForAll) {
  TempFolder stale;
  save(stale.path(), Sample(6).content(), sample_manifest(2), team);
  on_ranks(3, [&](Communicator& world) {
    const Choice choice = choose_checkpoint(world, world.rank() == 0 ? run.path() : stale.path(), "last");
    EXPECT_EQ(choice.folder, folder);
    EXPECT_EQ(choice.manifest.step, 3);
    EXPECT_EQ(manifest_text(choice.manifest), manifest_text(read_manifest(folder)));
  });
  damage(folder / manifest_file);
  const std::vector<std::string> said = complaints(2, [&](Communicator& world) { choose_checkpoint(world, run.path(), "last"); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "every checkpoint is damaged", said[1]);
  EXPECT_EQ(said[0], said[1]);
}

TEST_F(RanksRead, WhatRankZeroPassedOverIsKnownToAll) {
  damage(save(run.path(), sample.content(), sample_manifest(4), team).folder / manifest_file);
  on_ranks(2, [&](Communicator& world) {
    const Choice choice = choose_checkpoint(world, run.path(), "last");
    EXPECT_EQ(choice.manifest.step, 3);
    ASSERT_EQ(choice.passed_over.size(), 1U);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "step_4", choice.passed_over[0]);
  });
}

TEST_F(RanksRead, ARankThatFindsAnotherCheckpointThereIsTold) {
  TempFolder stale;
  const fs::path other = save(stale.path(), Sample(6).content(), sample_manifest(3), team).folder;
  const std::vector<std::string> said =
      complaints(2, [&](Communicator& world) { open_together(world, world.rank() == 0 ? folder : other); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "rank 1: " + other.string() + " has another checkpoint", said[0]);
  EXPECT_EQ(said[0], said[1]);
  const std::vector<std::string> missing =
      complaints(2, [&](Communicator& world) { open_together(world, world.rank() == 0 ? folder : stale.path() / "none"); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "rank 1: cannot read", missing[0]);
  EXPECT_EQ(missing[0], missing[1]);
}

}  // namespace
}  // namespace lockstep::checkpoint
