// Ranges that are written while their owner goes on changing them.

#include "checkpoint/background_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <numeric>

#include "checkpoint/find.h"
#include "checkpoint/sample.h"
#include "support/temp_folder.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

/// Tensors of some parts each, and a save of them that goes on while they change.
class Beside : public testing::Test {
 protected:
  static constexpr std::int64_t elements = 6 * part_bytes / 4 + 77;
  static constexpr int tensors = 4;

  Beside() {
    for (int t = 0; t < tensors; ++t) {
      std::vector<float>& values = values_.emplace_back(static_cast<std::size_t>(elements));
      std::iota(values.begin(), values.end(), static_cast<float>(t));
    }
    arena_.emplace("copies", MemoryKind::workspace);
    BackgroundWriter::declare_copies(*arena_, copies_, tensors * elements * 4);
    Ledger ledger;
    arena_->commit(host_memory(), ledger);
  }
  HeldTensor held(int t) {
    return hold_whole("t" + std::to_string(t), view(std::span(values_[static_cast<std::size_t>(t)]), Shape{elements}));
  }
  std::vector<HeldTensor> all() {
    std::vector<HeldTensor> list;
    for (int t = 0; t < tensors; ++t) list.push_back(held(t));
    return list;
  }
  Writer writer(const fs::path& run) { return {*self_, run, 3, {{std::string(model_file), logical(all())}}}; }
  void spoil(int t) { std::ranges::fill(values_[static_cast<std::size_t>(t)], -1.0F); }
  /// The files of a save that nothing goes on beside.
  std::string expected() {
    const TempFolder run;
    Writer whole = writer(run.path());
    whole.write(all(), team_);
    return io::read_file(whole.commit(sample_manifest(3)).folder / model_file);
  }
  std::string finish(Writer& writer, BackgroundWriter& background) {
    background.close();
    background.wait();
    background.rethrow();
    const Manifest manifest = writer.completed(sample_manifest(3), *self_);
    writer.publish(manifest);
    const fs::path folder = writer.report(manifest).folder;
    EXPECT_TRUE(Reader(folder).verify(team_).empty());
    return io::read_file(folder / model_file);
  }
  /// What ended the thread.
  static std::string failure(BackgroundWriter& background) {
    background.wait();
    try {
      background.rethrow();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "no error";
  }
  fs::path partial() const { return run_.path() / "checkpoints/.step_3.partial"; }

  TempFolder run_;
  Team team_{2};
  std::unique_ptr<comm::Communicator> self_ = comm::make_self();
  std::vector<std::vector<float>> values_;
  std::optional<Arena> arena_;
  Tensor copies_;
};

TEST_F(Beside, CopiesAnEighthInWholeParts) {
  EXPECT_EQ(copies_.elements(), 4 * part_bytes);
  Arena small("copies", MemoryKind::workspace);
  Tensor one;
  BackgroundWriter::declare_copies(small, one, 100);
  EXPECT_EQ(one.elements(), part_bytes);
}

// The first change comes when most is still to be written, and more than the copies have room for.
TEST_F(Beside, WhatIsChangedBehindSettleIsSavedAsItWas) {
  const std::string whole = expected();
  Writer writer = this->writer(run_.path());
  BackgroundWriter background(writer, copies_);
  for (int t = tensors - 1; t >= 0; --t) background.lend(t, std::vector{held(t)});
  background.start();
  for (int t = 0; t < tensors; ++t) {
    background.settle(t, team_);
    spoil(t);
  }
  EXPECT_TRUE(finish(writer, background) == whole);
}

TEST_F(Beside, WhatIsShownOnceIsSavedAsItWas) {
  const std::string whole = expected();
  Writer writer = this->writer(run_.path());
  BackgroundWriter background(writer, copies_);
  background.lend(0, std::vector{held(0)});
  background.start();
  for (int t = 1; t < tensors; ++t) {
    background.take(std::vector{held(t)}, team_);
    spoil(t);
  }
  background.settle(0, team_);
  spoil(0);
  EXPECT_TRUE(finish(writer, background) == whole);
}

// What was taken first is in the file when the last is taken: the copies have no room for all.
TEST_F(Beside, OtherBytesInTheFileAreFoundAndNamed) {
  Writer writer = this->writer(run_.path());
  BackgroundWriter background(writer, copies_);
  background.start();
  background.take(all(), team_);
  {
    std::fstream file(partial() / model_file, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-tensors * elements * 4 + 5, std::ios::end);
    file.put('x');
  }
  background.close();
  const std::string said = failure(background);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "of tensor \"t0\", from element 0 on, the file has other bytes than were written",
                      said);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, (partial() / model_file).string(), said);
}

TEST_F(Beside, AWriteThatFailsIsToldAndKeepsNobodyWaiting) {
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  std::string said;
  {
    Writer writer = this->writer(run_.path());
    const rlimit limit{static_cast<rlim_t>(elements), old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    BackgroundWriter background(writer, copies_);
    background.lend(0, std::vector{held(0), held(1)});
    background.start();
    background.settle(0, team_);
    background.take(std::vector{held(2), held(3)}, team_);
    said = failure(background);
  }
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "model.safetensors: File too large", said);
  EXPECT_TRUE(fs::is_empty(run_.path() / "checkpoints"));
}

TEST_F(Beside, ASaveThatIsGivenUpLeavesNothing) {
  {
    Writer writer = this->writer(run_.path());
    BackgroundWriter background(writer, copies_);
    background.lend(0, all());
    background.start();
    EXPECT_FALSE(background.done());
  }
  EXPECT_TRUE(fs::is_empty(run_.path() / "checkpoints"));
}

}  // namespace
}  // namespace lockstep::checkpoint
