// What the ranks of a pipeline send each other: of each micro-batch the stream between two stages, once each way.

#include <gtest/gtest.h>

#include <atomic>

#include "support/counting_world.h"
#include "support/layout_run.h"

namespace lockstep::train {
namespace {

using support::Carried;
using support::LayoutRun;

/// Bytes of the messages of the second step, of all ranks.
std::int64_t sent_by_a_step(const LayoutRun& run) {
  std::atomic<std::int64_t> all = 0;
  comm::run_ranks(run.plan.ranks(), {.timeout = 60}, [&](comm::Communicator& world) {
    Carried carried;
    support::CountingWorld counting(world, carried);
    support::LayoutRank rank(run, counting);
    rank.engine().initialise();
    rank.step(0);
    const std::int64_t before = carried.sent;
    rank.step(1);
    all += carried.sent - before;
  });
  return all;
}

LayoutRun pipeline_of(int pp, const std::string& schedule, int chunks = 1) {
  LayoutRun run{.plan = {.pp = pp, .chunks = chunks, .schedule = schedule, .microbatches = 4, .ranks_per_host = pp},
                .model = support::tiny_llama()};
  run.model.layers = 6;
  return run;
}

// Between s stages m micro-batches send 2 (s - 1) m times rows x width.
TEST(PipelineVolume, StagesSendTheStreamOnceEachWay) {
  for (const LayoutRun& run :
       {pipeline_of(2, "1f1b"), pipeline_of(3, "1f1b"), pipeline_of(3, "zb-h1"), pipeline_of(3, "gpipe"),
        pipeline_of(2, "interleaved", 2), pipeline_of(2, "interleaved", 3), pipeline_of(3, "breadth-first", 2)}) {
    const std::int64_t stream = run.samples * run.config().positions * run.model.width * 4;
    EXPECT_EQ(sent_by_a_step(run), 2 * (run.plan.stages() - 1) * run.plan.microbatches * stream) << run.plan.schedule;
  }
}

// In a V a rank has the two stages in its middle: one message less each way.
TEST(PipelineVolume, InAVTheLastRankSendsNothingToItself) {
  const LayoutRun run = pipeline_of(3, "zb-v", 2);
  const std::int64_t stream = run.samples * run.config().positions * run.model.width * 4;
  EXPECT_EQ(sent_by_a_step(run), 2 * (6 - 2) * run.plan.microbatches * stream);
}

// Tensor ranks send the whole stream each, with sequence parallelism and context parallelism their own rows.
TEST(PipelineVolume, RanksThatDivideRowsSendTheirOwn) {
  LayoutRun run = pipeline_of(2, "1f1b");
  const std::int64_t each = 2 * run.plan.microbatches * run.samples * run.config().positions * run.model.width * 4;
  run.plan.tp = 2;
  EXPECT_EQ(sent_by_a_step(run), 2 * each);
  run.plan.sequence = true;
  EXPECT_EQ(sent_by_a_step(run), each);
  run.plan.cp = 2;
  EXPECT_EQ(sent_by_a_step(run), each);
}

// In bf16 half of the bytes.
TEST(PipelineVolume, StreamsTravelInTheTypeOfActivations) {
  LayoutRun run = pipeline_of(2, "1f1b");
  const std::int64_t wide = sent_by_a_step(run);
  run.weights = support::bf16_with_masters;
  EXPECT_EQ(2 * sent_by_a_step(run), wide);
}

}  // namespace
}  // namespace lockstep::train
