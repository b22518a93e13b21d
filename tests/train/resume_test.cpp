// The table of resumes: saved by any number of ranks at any level, in any type and place, and gone on with by any other.
// LOCKSTEP_RESUME_MATRIX=all goes through every pair (make parity); without it there is a sample of them.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "support/layout_run.h"
#include "support/saved_run.h"
#include "support/temp_folder.h"

namespace lockstep::train {
namespace {

using support::Gone;
using support::LayoutRank;
using support::LayoutResult;
using support::LayoutRun;
using support::Saved;
using support::saved_steps;
using support::ZeroRank;
using support::ZeroResult;
using support::ZeroRun;

constexpr int highest_level = 3, most_ranks = 4;
/// Of a step, whatever the number of ranks.
constexpr int all_microbatches = 12;

bool goes_through_all() {
  const char* const wish = std::getenv("LOCKSTEP_RESUME_MATRIX");
  return wish != nullptr && std::string(wish) == "all";
}

/// Every n-th of what is numbered, or all of it.
class Sample {
 public:
  explicit Sample(int one_in) : one_in_(goes_through_all() ? 1 : one_in) {}
  bool takes_next() { return number_++ % one_in_ == 0; }

 private:
  int one_in_, number_ = 0;
};

ZeroRun on(const ZeroRun& like, int ranks, int level) {
  ZeroRun run = like;
  run.ranks = ranks;
  run.level = level;
  run.microbatches = all_microbatches / ranks;
  return run;
}

/// A further step without any file: the state lies whole on every rank.
Gone given(const ZeroRun& run, const ZeroResult& state) {
  return support::go_on(run, [&](ZeroRank& rank) {
    rank.engine().state().for_each({.slots = true, .changes = true}, [&](const parallel::StateRange& range) {
      const auto put = [&](const Tensor& to, const support::UnitBytes& from) {
        const std::span<const std::byte> whole = from[static_cast<std::size_t>(range.unit.value)];
        const std::size_t first = static_cast<std::size_t>(range.range.first) * size_of(to.dtype);
        std::ranges::copy(whole.subspan(first, to.bytes()), elements<std::byte>(to).begin());
      };
      put(range.master, state.masters);
      for (std::size_t s = 0; s < range.slots.size(); ++s) put(range.slots[s], state.slots[s]);
    });
    rank.engine().state().set_updates(saved_steps);
    rank.engine().weights_changed();
  });
}

ZeroResult uninterrupted(ZeroRun run) {
  run.steps = saved_steps + 1;
  return support::learn(run);
}

void expect_same_step(const Gone& a, const ZeroResult& b) {
  EXPECT_EQ(a.after.losses.back(), b.losses.back());
  EXPECT_EQ(a.after.norms.back(), b.norms.back());
  EXPECT_TRUE(a.after.masters == b.masters);
  EXPECT_TRUE(a.after.slots == b.slots);
}

/// Every pair of (ranks, level), one in so many.
void expect_any_resumes_as_any_other(const ZeroRun& like, int one_in, double tolerance) {
  Sample sample(one_in);
  for (int from = 1; from <= most_ranks; ++from) {
    const ZeroResult whole = uninterrupted(on(like, from, 0));
    std::map<int, Gone> expected;  // by number of ranks
    for (int from_level = 0; from_level <= highest_level; ++from_level) {
      std::optional<Saved> saved;
      const TempFolder folder;
      for (int to = 1; to <= most_ranks; ++to) {
        for (int to_level = 0; to_level <= highest_level; ++to_level) {
          if (!sample.takes_next()) continue;
          SCOPED_TRACE(testing::Message() << from << " ranks at level " << from_level << ", then " << to << " at " << to_level);
          if (!saved) saved = support::save(on(like, from, from_level), folder.path());
          if (!expected.contains(to)) expected[to] = given(on(like, to, 0), saved->state);
          const Gone gone = support::resume(on(like, to, to_level), saved->folder);
          EXPECT_TRUE(gone.loaded.masters == saved->state.masters);
          EXPECT_TRUE(gone.loaded.slots == saved->state.slots);
          support::expect_equal(gone.after, expected.at(to).after);
          if (to == from) expect_same_step(gone, whole);
          EXPECT_NEAR(gone.after.losses.back(), whole.losses.back(), tolerance * whole.losses.back());
          EXPECT_NEAR(gone.after.norms.back(), whole.norms.back(), tolerance * whole.norms.back());
        }
      }
    }
  }
}

TEST(ResumeTable, AnyRanksAndLevelGoOnFromAnyOther) { expect_any_resumes_as_any_other({}, 7, 1e-5); }

TEST(ResumeTable, AnyRanksAndLevelGoOnFromAnyOtherInBf16) {
  expect_any_resumes_as_any_other({.model = support::tiny_llama(), .weights = support::bf16_with_masters}, 23, 3e-2);
  expect_any_resumes_as_any_other({.weights = support::bf16_alone}, 29, 3e-2);
}

/// Values in f32: of bf16 the same ones.
std::vector<float> widened(const std::vector<std::byte>& bytes, DType type) {
  std::vector<std::byte> copy = bytes;
  Tensor tensor;
  tensor.data = copy.data();
  tensor.shape = Shape{static_cast<std::int64_t>(bytes.size() / size_of(type))};
  tensor.dtype = type;
  return support::values_of(tensor);
}
bool same_values(const support::UnitBytes& a, DType a_type, const support::UnitBytes& b, DType b_type) {
  for (std::size_t unit = 0; unit < a.size(); ++unit) {
    if (widened(a[unit], a_type) != widened(b[unit], b_type)) return false;
  }
  return a.size() == b.size();
}

// Of a type, from and to a disk, on other ranks at once: where nothing is lost, nothing is.
TEST(ResumeTable, TypesAndPlacesChangeWhereNothingIsLost) {
  const TempFolder disk;
  const parallel::WeightStorage fp32 = {};
  struct Row {
    parallel::WeightStorage from, to;
    bool from_disk, to_disk;
  };
  const std::vector<Row> table{{fp32, support::bf16_with_masters, false, false},
                               {support::bf16_with_masters, fp32, false, false},
                               {support::bf16_alone, fp32, false, false},
                               {support::bf16_alone, support::bf16_with_masters, false, true},
                               {fp32, support::bf16_with_masters, true, true},
                               {support::bf16_with_masters, support::bf16_with_masters, true, false},
                               {fp32, fp32, false, true}};
  const auto placed = [&](ZeroRun run, bool on_disk) {
    run.optimizer_tier = on_disk ? layout::Tier::disk : layout::Tier::device;
    run.offload.folder = disk.path();
    run.offload.range_elements = 768;
    return run;
  };
  Sample sample(3);
  for (const Row& row : table) {
    for (const auto& [from, from_level, to, to_level] : {std::array{3, 0, 2, 3}, {2, 2, 3, 1}, {1, 0, 4, 2}, {4, 3, 1, 0}}) {
      if (!sample.takes_next()) continue;
      SCOPED_TRACE(testing::Message() << from << " at " << from_level << " to " << to << " at " << to_level);
      const TempFolder folder;
      const Saved saved = support::save(placed(on({.weights = row.from}, from, from_level), row.from_disk), folder.path());
      const ZeroRun then = placed(on({.weights = row.to}, to, to_level), row.to_disk);
      const Gone gone = support::resume(then, saved.folder);
      const DType old_type = row.from.owned(), new_type = row.to.owned();
      EXPECT_TRUE(same_values(gone.loaded.masters, new_type, saved.state.masters, old_type));
      ASSERT_EQ(gone.loaded.slots.size(), saved.state.slots.size());
      for (std::size_t s = 0; s < saved.state.slots.size(); ++s)
        EXPECT_TRUE(same_values(gone.loaded.slots[s], new_type, saved.state.slots[s], old_type));
      support::expect_equal(gone.after, given(on({.weights = row.to}, to, 0), gone.loaded).after);
    }
  }
}

layout::ParallelPlan at_level(layout::ParallelPlan plan, int level) {
  plan.ranks_per_host = plan.ranks();
  plan.microbatches = 4 / plan.dp;
  layout::set_zero_level(plan, level);
  return plan;
}

/// Layouts that divide layers, stages and sequences, too.
std::vector<layout::ParallelPlan> layouts() {
  return {at_level({}, 0),
          at_level({.dp = 4}, 3),
          at_level({.tp = 2}, 0),
          at_level({.dp = 2, .tp = 2, .sequence = true}, 1),
          at_level({.tp = 3}, 0),
          at_level({.cp = 2}, 2),
          at_level({.tp = 2, .cp = 2}, 1),
          at_level({.pp = 2}, 0),
          at_level({.dp = 2, .pp = 2}, 3)};
}

/// What a layout has after a step, and the checkpoint of it.
struct SavedLayout {
  io::Path folder;
  LayoutResult state;
};
SavedLayout save(const LayoutRun& run, const io::Path& folder) {
  SavedLayout saved;
  support::on_layout(run, [&](LayoutRank& rank) {
    rank.engine().initialise();
    LayoutResult trained;
    support::take_steps(rank, 0, 1, trained);
    rank.collect(saved.state, false);
    const checkpoint::SaveReport report = save_run(folder, rank.engine(), {.step = 1}, Json::Object{}, rank.team());
    if (rank.lead()) saved.folder = report.folder;
  });
  return saved;
}

TEST(ResumeTable, LayoutsThatDivideTheModelGoOnFromEachOther) {
  arch::ModelConfig model = support::tiny_llama();
  model.ffn_width = 42;  // which two and three divide
  LayoutRun like{.model = model, .steps = 2};
  const LayoutResult whole = support::learn(support::alone({.plan = at_level({}, 0), .model = model, .steps = 2}));
  Sample sample(5);
  for (const layout::ParallelPlan& from : layouts()) {
    const TempFolder folder;
    std::optional<SavedLayout> saved;
    for (const layout::ParallelPlan& to : layouts()) {
      if (!sample.takes_next()) continue;
      SCOPED_TRACE(layout::describe(from) + ", then " + layout::describe(to));
      like.plan = from;
      if (!saved) saved = save(like, folder.path());
      like.plan = to;
      LayoutResult loaded, after;
      support::on_layout(like, [&](LayoutRank& rank) {
        load_run(*checkpoint::open_together(rank.groups().all(), saved->folder), rank.engine(), rank.engine().groups().all(),
                 rank.team());
        rank.engine().check_state();
        rank.collect(loaded, false);
        support::take_steps(rank, 1, 2, after);
        rank.collect(after);
      });
      EXPECT_TRUE(loaded.weights == saved->state.weights);
      EXPECT_TRUE(loaded.slots == saved->state.slots);
      EXPECT_NEAR(after.losses.back(), whole.losses.back(), 1e-5 * whole.losses.back());
      support::expect_near(after.weights, whole.weights, 1e-5);
    }
  }
}

}  // namespace
}  // namespace lockstep::train
