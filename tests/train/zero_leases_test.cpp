// Ranks that have parts of the weights lease the same ones, in training, evaluation and reading.

#include <gtest/gtest.h>

#include "support/checking_store.h"
#include "support/saved_run.h"
#include "support/temp_folder.h"

namespace lockstep::train {
namespace {

using support::LayoutRun;

// The store that checks lends copies: what a lease does not cover is no number.
TEST(ZeroLeases, RanksTakeTheSameOnesInTheSameOrder) {
  for (const layout::LeaseSize leases : {layout::LeaseSize::block, layout::LeaseSize::sub_layer}) {
    const LayoutRun run{.layout = "dp=3,gas=2", .leases = leases};
    support::StoreRecords records(3);
    support::expect_equal(support::learn(support::at_level(run, 3), records.checked()), support::learn(run));
    EXPECT_GT(records.of(0).size(), 20U);
    for (int rank = 1; rank < 3; ++rank) EXPECT_TRUE(records.of(rank) == records.of(0));
  }
}

/// What a model for reading makes of seven tokens, on ranks that keep their weights at a level.
std::vector<float> logits(const LayoutRun& run, const io::Path& checkpoint) {
  std::vector<float> all;
  support::on_readers(run, checkpoint, [&](const support::Reading& reading) {
    if (reading.lead) all = support::values_of(reading.logits);
  });
  return all;
}

TEST(ZeroLeases, ReadersThatHavePartsReadTheSame) {
  for (const arch::ModelConfig& model :
       {support::tiny_model(), support::tiny_llama(), support::tiny_qwen3(), support::tiny_gemma()}) {
    const TempFolder folder;
    const io::Path checkpoint = support::save({.layout = "dp=2,zero=3", .model = model}, folder.path(), 0).folder;
    const std::vector<float> whole = logits({.model = model}, checkpoint);
    for (const char* words : {"zero=3", "dp=3,zero=3", "dp=3,zero=2"})
      EXPECT_EQ(logits({.layout = words, .model = model}, checkpoint), whole) << words;
  }
}

}  // namespace
}  // namespace lockstep::train
