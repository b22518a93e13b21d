// What the ranks of a pipeline send each other: of each micro-batch the stream between two stages, once each way.

#include <gtest/gtest.h>

#include "support/traffic_of_a_step.h"

namespace lockstep::train {
namespace {

using support::LayoutRun;

LayoutRun pipeline_of(const std::string& words) {
  LayoutRun run{.layout = "gas=4," + words, .model = support::tiny_llama(), .samples = 2};
  run.model.layers = 6;
  return run;
}

/// Bytes of the messages of a step, of all ranks.
std::int64_t sent_by_a_step(const LayoutRun& run) {
  return support::sent_by_a_step(run, comm::Purpose::activations, comm::Collective::send);
}
/// Bytes of the stream that a micro-batch sends from a stage to the next.
std::int64_t stream_of(const LayoutRun& run) { return run.samples * run.config().positions * run.model.width * 4; }

// Between s stages m micro-batches send 2 (s - 1) m times rows x width.
TEST(PipelineVolume, StagesSendTheStreamOnceEachWay) {
  for (const char* words : {"pp=2", "pp=3", "pp=3,schedule=zb-h1", "pp=3,schedule=gpipe", "pp=2,schedule=interleaved",
                            "pp=2,schedule=interleaved,virtual_stages=3", "pp=3,schedule=breadth-first"}) {
    const LayoutRun run = pipeline_of(words);
    EXPECT_EQ(sent_by_a_step(run), 2 * (run.plan().stages() - 1) * 4 * stream_of(run)) << words;
  }
}

// In a V a rank has the two stages in its middle: one message less each way.
TEST(PipelineVolume, InAVTheLastRankSendsNothingToItself) {
  const LayoutRun run = pipeline_of("pp=3,schedule=zb-v");
  EXPECT_EQ(sent_by_a_step(run), 2 * (6 - 2) * 4 * stream_of(run));
}

// Tensor ranks send the whole stream each, with sequence parallelism and context parallelism their own rows.
TEST(PipelineVolume, RanksThatDivideRowsSendTheirOwn) {
  const LayoutRun run = pipeline_of("pp=2,tp=2");
  const std::int64_t each = 2 * 4 * stream_of(run);
  EXPECT_EQ(sent_by_a_step(run), 2 * each);
  for (const char* words : {"sequence", "sequence,cp=2"}) EXPECT_EQ(sent_by_a_step(support::with(run, words)), each) << words;
}

// In bf16 half of the bytes.
TEST(PipelineVolume, StreamsTravelInTheTypeOfActivations) {
  LayoutRun run = pipeline_of("pp=2");
  const std::int64_t wide = sent_by_a_step(run);
  run.weights = support::bf16_with_masters;
  EXPECT_EQ(2 * sent_by_a_step(run), wide);
}

}  // namespace
}  // namespace lockstep::train
