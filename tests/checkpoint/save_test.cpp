#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "checkpoint/find.h"
#include "checkpoint/sample.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

// Files larger than `bytes` cannot be written while this lives: a full disk that needs no file system of its own.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit{bytes, old_limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_limit_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  void (*old_handler_)(int);
  rlimit old_limit_{};
};

Sample load(const fs::path& folder) {
  Sample sample(99);  // other values: everything must be overwritten
  Team team(2);
  const Reader reader(folder);
  const Content content = sample.content();
  read(reader, content.model, team);
  read(reader, content.optimizer, team);
  return sample;
}

TEST(Save, WritesACheckpointThatReadsBack) {
  TempFolder run;
  Team team(2);
  Sample sample(5);
  const SaveReport report = save(run.path(), sample.content(), sample_manifest(300, 1.5), team);
  EXPECT_EQ(report.folder, run.path() / "checkpoints" / "step_300");
  EXPECT_EQ(report.bytes, fs::file_size(report.folder / model_file) + fs::file_size(report.folder / optimizer_file));
  EXPECT_EQ(report.waited_seconds, report.durable_seconds);
  EXPECT_EQ(entries(report.folder), 3u);
  EXPECT_EQ(entries(run.path() / "checkpoints"), 1u);
  EXPECT_TRUE(load(report.folder) == sample);
  const Manifest manifest = read_manifest(report.folder);
  EXPECT_EQ(manifest.step, 300);
  EXPECT_EQ(manifest.program, "lockstep test");
  EXPECT_EQ(manifest.files.size(), 2u);
  EXPECT_EQ(manifest.tensors.size(), 12u);
}

TEST(Save, TheSameStateGivesTheSameBytes) {
  TempFolder one, two;
  Sample sample(5);
  for (const auto& [folder, threads] : {std::pair(&one, 1), std::pair(&two, 3)}) {
    Team team(threads);
    save(folder->path(), sample.content(), sample_manifest(1), team);
  }
  for (const auto name : {model_file, optimizer_file, manifest_file}) {
    const fs::path path = fs::path("checkpoints") / "step_1" / name;
    EXPECT_EQ(io::read_file(one.path() / path), io::read_file(two.path() / path)) << name;
  }
}

TEST(Save, RangesOfManyHoldersMakeTheSameFile) {
  TempFolder run;
  Team team(2);
  Sample sample(5);
  const Content whole = sample.content();
  save(run.path(), whole, sample_manifest(1), team);
  Content cut;
  for (const auto& [from, to] : {std::pair(&whole.model, &cut.model), std::pair(&whole.optimizer, &cut.optimizer)}) {
    for (const HeldTensor& held : *from) {
      const Tensor& all = held.ranges.front().values;
      const std::int64_t middle = all.elements() / 3;
      to->push_back({held.tensor, {{middle, all.flat(middle, all.elements() - middle)}, {0, all.flat(0, middle)}}});
    }
  }
  save(run.path(), cut, sample_manifest(2), team);
  for (const auto name : {model_file, optimizer_file}) {
    const std::string one = io::read_file(run.path() / "checkpoints/step_1" / name);
    std::string two = io::read_file(run.path() / "checkpoints/step_2" / name);
    two.replace(two.find("\"step\":\"2\""), 10, "\"step\":\"1\"");
    EXPECT_TRUE(one == two) << name;
  }
  EXPECT_EQ(read_manifest(run.path() / "checkpoints/step_1").tensors[0].checksum,
            read_manifest(run.path() / "checkpoints/step_2").tensors[0].checksum);
}

TEST(Save, AStepCanBeSavedAgain) {
  TempFolder run;
  Team team(1);
  for (const unsigned seed : {5u, 6u}) {
    Sample sample(seed);
    const SaveReport report = save(run.path(), sample.content(), sample_manifest(7), team);
    EXPECT_TRUE(load(report.folder) == sample);
    EXPECT_EQ(entries(run.path() / "checkpoints"), 1u);
  }
}

// The limit cuts at the first file, at the second, and at the manifest, which is made the largest here.
TEST(Save, AFullDiskAtAnyFileLeavesTheEarlierCheckpoint) {
  TempFolder run;
  Team team(1);
  Sample good(5), next(6);
  save(run.path(), good.content(), sample_manifest(1, 1.0), team);
  Manifest manifest = sample_manifest(2, 0.5);
  manifest.run = Json::Object{{"note", std::string(200'000, 'x')}};
  for (const rlim_t limit : std::vector<rlim_t>{0, 1000, 20'000, 30'000, 40'000, 60'000, 100'000, 200'000}) {
    std::string complaint;
    {
      const FileSizeLimit full(limit);
      complaint = complaint_of([&] { save(run.path(), next.content(), manifest, team); });
    }
    const std::string file = limit < 22'000 ? "model.safetensors" : limit < 45'000 ? "optimizer.safetensors" : "manifest.json";
    EXPECT_PRED_FORMAT2(testing::IsSubstring, file, complaint) << limit;
    EXPECT_EQ(entries(run.path() / "checkpoints"), 1u) << limit;
    EXPECT_TRUE(load(choose_checkpoint(run.path(), "last").folder) == good) << limit;
  }
  save(run.path(), next.content(), manifest, team);
  EXPECT_TRUE(load(choose_checkpoint(run.path(), "last").folder) == next);
}

TEST(Save, SaysHowMuchSpaceIsMissing) {
  TempFolder run;
  Team team(1);
  float value = 1;
  // An element whose views pretend to be an enormous tensor: it is refused before any of it is touched.
  const Shape enormous{1 << 30, 1 << 20};
  Tensor tensor = view(std::span(&value, 1), Shape{1});
  tensor.shape = enormous;
  const Content content{{hold_whole("w", tensor)}, {}};
  const std::string complaint = complaint_of([&] { save(run.path(), content, sample_manifest(1), team); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "a checkpoint needs", complaint);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "left", complaint);
  EXPECT_EQ(entries(run.path() / "checkpoints"), 0u);
}

TEST(Save, SaysWhenTheFolderCannotBeWritten) {
  TempFolder run;
  Team team(1);
  Sample sample;
  const auto complaint = [&](const fs::path& path) {
    return complaint_of([&] { save(path, sample.content(), sample_manifest(1), team); });
  };
  io::replace_file(run.path() / "file", "in the way");
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "file/checkpoints", complaint(run.path() / "file"));
  io::replace_file(run.path() / "checkpoints", "in the way");
  EXPECT_PRED_FORMAT2(testing::IsSubstring, (run.path() / "checkpoints").string(), complaint(run.path()));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "/proc/lockstep", complaint("/proc/lockstep"));  // not even root may write there
}

TEST(Save, TwoTensorsOfOneNameAreRefused) {
  TempFolder run;
  Team team(1);
  Sample sample;
  Content content = sample.content();
  content.model.push_back(content.model.front());
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "\"wte.weight\"",
                      complaint_of([&] { save(run.path(), content, sample_manifest(1), team); }));
  content = sample.content();
  content.optimizer.push_back(content.model.front());
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "\"wte.weight\"",
                      complaint_of([&] { save(run.path(), content, sample_manifest(1), team); }));
  EXPECT_FALSE(fs::exists(run.path() / "checkpoints"));
}

// A process that saves without end is killed at arbitrary moments.
TEST(Save, KilledAtAnyMomentItLeavesAUsableCheckpoint) {
  TempFolder run;
  Team team(1);
  Sample sample(5);
  save(run.path(), sample.content(), sample_manifest(1), team);
  for (int round = 0; round < 25; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      Team own(1);
      for (std::int64_t step = 1;; step = step % 3 + 1) save(run.path(), sample.content(), sample_manifest(step), own);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200 + 997 * round));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    const Choice choice = choose_checkpoint(run.path(), "last");
    EXPECT_TRUE(choice.passed_over.empty());
    EXPECT_TRUE(load(choice.folder) == sample) << round;
  }
  save(run.path(), sample.content(), sample_manifest(4), team);
  for (const auto& entry : fs::directory_iterator(run.path() / "checkpoints")) {
    EXPECT_TRUE(entry.path().filename().string().starts_with("step_")) << entry.path();  // the dead saves' remains are gone
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
