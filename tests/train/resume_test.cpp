// The table of resumes: saved by any number of ranks at any level, in any type and place, and gone on with by any other.
// LOCKSTEP_RESUME_MATRIX=all goes through every pair (make parity); without it there is a sample of them.

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <string>

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

constexpr int highest_level = 3, most_ranks = 4;
/// Micro-batches of a step over all ranks, whatever their number.
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

LayoutRun on(const LayoutRun& like, int ranks, int level) {
  const std::string words = "dp=" + std::to_string(ranks) + ",gas=" + std::to_string(all_microbatches / ranks);
  return support::at_level(support::with(like, words), level);
}

/// A further step without any file: the state lies whole on every rank.
Gone given(const LayoutRun& run, const LayoutResult& state) {
  return support::go_on(run, [&](LayoutRank& rank) {
    parallel::TrainingState& own = rank.engine().state();
    own.for_each({.slots = true, .changes = true}, [&](const parallel::StateRange& range) {
      const auto put = [&](const Tensor& to, const support::Values& from) {
        for (const layout::PlacedParameter& placed : own.units()[static_cast<std::size_t>(range.unit.value)].parameters) {
          const std::vector<float>& values = from.at(placed.info.name);
          support::set_values(to.flat(placed.offset, placed.shape().elements()), values);
        }
      };
      put(range.master, state.weights);
      for (std::size_t s = 0; s < range.slots.size(); ++s) put(range.slots[s], state.slots[s]);
    });
    own.set_updates(saved_steps);
    rank.engine().weights_changed();
  });
}

void expect_same_step(const Gone& a, const LayoutResult& b) {
  EXPECT_EQ(a.after.losses.back(), b.losses.back());
  EXPECT_EQ(a.after.norms.back(), b.norms.back());
  EXPECT_TRUE(support::same_bits(a.after.weights, b.weights));
  EXPECT_TRUE(support::same_bits(a.after.slots, b.slots));
}

/// Every pair of (ranks, level), one in so many.
void expect_any_resumes_as_any_other(const LayoutRun& like, int one_in, double tolerance) {
  Sample sample(one_in);
  for (int from = 1; from <= most_ranks; ++from) {
    const LayoutResult whole = support::learn(on(like, from, 0));
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
          EXPECT_TRUE(support::same_bits(gone.loaded.weights, saved->state.weights));
          EXPECT_TRUE(support::same_bits(gone.loaded.slots, saved->state.slots));
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

// A run goes on in another type, from and to a disk, on other ranks at once. No bit is lost where the types lose none.
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
  const auto placed = [&](const LayoutRun& at, bool on_disk) {
    LayoutRun run = support::with(at, on_disk ? "offload_optimizer=nvme" : "");
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
      const LayoutRun then = placed(on({.weights = row.to}, to, to_level), row.to_disk);
      const Gone gone = support::resume(then, saved.folder);
      EXPECT_TRUE(support::same_bits(gone.loaded.weights, saved.state.weights));
      EXPECT_TRUE(support::same_bits(gone.loaded.slots, saved.state.slots));
      support::expect_equal(gone.after, given(on({.weights = row.to}, to, 0), gone.loaded).after);
    }
  }
}

/// Layouts that divide layers, stages and sequences, too: four micro-batches on all ranks.
constexpr std::array layouts{"gas=4",
                             "dp=4,zero=3",
                             "tp=2,gas=4",
                             "dp=2,tp=2,sequence,gas=2,zero=1",
                             "tp=3,gas=4",
                             "cp=2,gas=4,zero=2",
                             "tp=2,cp=2,gas=4,zero=1",
                             "pp=2,gas=4",
                             "dp=2,pp=2,gas=2,zero=3"};

TEST(ResumeTable, LayoutsThatDivideTheModelGoOnFromEachOther) {
  LayoutRun like{.model = support::tiny_llama(), .optimizer = support::smooth, .samples = 2, .steps = 2};
  like.model.ffn_width = 42;  // which two and three divide
  const LayoutResult whole = support::learn(support::with(like, "gas=4"));
  Sample sample(5);
  for (const char* from : layouts) {
    const TempFolder folder;
    std::optional<Saved> saved;
    for (const char* to : layouts) {
      if (!sample.takes_next()) continue;
      SCOPED_TRACE(std::string(from) + ", then " + to);
      if (!saved) saved = support::save(support::with(like, from), folder.path(), 1);
      const Gone gone = support::resume(support::with(like, to), saved->folder, 1);
      EXPECT_TRUE(support::same_bits(gone.loaded.weights, saved->state.weights));
      EXPECT_TRUE(support::same_bits(gone.loaded.slots, saved->state.slots));
      EXPECT_NEAR(gone.after.losses.back(), whole.losses.back(), 1e-5 * whole.losses.back());
      support::expect_near(gone.after.weights, whole.weights, 1e-5);
    }
  }
}

}  // namespace
}  // namespace lockstep::train
