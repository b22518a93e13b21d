// A run in which one rank waits for its batches longer than the others do.

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "comm/thread/thread_world.h"
#include "data/loader.h"
#include "io/file.h"
#include "support/temp_folder.h"
#include "support/tiny_trainer.h"
#include "train/replicas.h"

namespace lockstep::train {
namespace {

constexpr auto pause = std::chrono::milliseconds(20);

/// Takes a pause before each step on the slow rank.
class SlowLoader final : public data::BatchSource {
 public:
  SlowLoader(data::BatchSource& loader, bool slow) : loader_(loader), slow_(slow) {}
  void declare(Arena& arena) override { loader_.declare(arena); }
  void start(std::uint64_t step, std::uint64_t next_sample) override { loader_.start(step, next_sample); }
  data::StepBatches next() override {
    if (slow_) std::this_thread::sleep_for(pause);
    return loader_.next();
  }
  double waited_seconds() const override { return loader_.waited_seconds(); }

 private:
  data::BatchSource& loader_;
  bool slow_;
};

struct Heard {
  std::vector<LateChange> changes;
  std::string host;
  std::int64_t step = 0;
  std::optional<LateRank> logged;
};

class Ear final : public RunListener {
 public:
  explicit Ear(Heard& heard) : heard_(heard) {}
  void rank_changed(const LateChange& who, const std::string& host, std::int64_t step) override {
    heard_.changes.push_back(who);
    heard_.host = host;
    heard_.step = step;
  }
  void logged(const Metrics& m) override { heard_.logged = m.late; }

 private:
  Heard& heard_;
};

Heard train_with(std::vector<std::string> hosts) {
  const TempFolder folder;
  io::replace_file(folder.path() / "text.bin", std::string(400, '\1'));
  Heard heard;
  comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& world) {
    support::TinyTrainer tiny(world, folder.path() / "text.bin");
    SlowLoader slow(tiny.loader(), world.rank() == 1);
    TrainerOptions options;
    options.max_iters = 30;  // the log line of step 20 comes before the ranks meet
    options.folder = folder.path();
    options.hosts = hosts;
    options.watches = false;
    Trainer trainer(options, tiny.parts(slow));
    RunListeners listeners;
    Heard own;
    listeners.push_back(std::make_unique<Ear>(world.rank() == 0 ? heard : own));
    trainer.run({}, std::move(listeners));
    EXPECT_TRUE(own.changes.empty() && !own.logged) << "rank 0 tells";
  });
  return heard;
}

TEST(LateRun, TheSlowRankIsNamedAndWhatIsLostToItLogged) {
  const Heard heard = train_with({"a1", "b2"});
  ASSERT_EQ(heard.changes.size(), 1U);
  EXPECT_TRUE(heard.changes[0].late);
  EXPECT_EQ(heard.changes[0].rank, 1);
  EXPECT_EQ(heard.host, "b2");
  EXPECT_LE(heard.step, 20);
  ASSERT_TRUE(heard.logged);
  EXPECT_EQ(heard.logged->rank, 1);
}

TEST(LateRun, WhereCoresAreSharedNoneIsCalledLate) {
  const Heard heard = train_with({});
  EXPECT_TRUE(heard.changes.empty());
  EXPECT_FALSE(heard.logged);
}

}  // namespace
}  // namespace lockstep::train
