// Ranks that have parts of the weights lease the same ones, in training, evaluation and reading.

#include <gtest/gtest.h>

#include "checkpoint/reader.h"
#include "support/checking_store.h"
#include "support/temp_folder.h"
#include "support/zero_run.h"
#include "train/inference.h"
#include "train/state.h"

namespace lockstep::train {
namespace {

using support::ZeroRank;
using support::ZeroRun;

// The store that checks lends copies: what a lease does not cover is no number.
TEST(ZeroLeases, RanksTakeTheSameOnesInTheSameOrder) {
  for (const layout::LeaseSize leases : {layout::LeaseSize::block, layout::LeaseSize::sub_layer}) {
    ZeroRun run{.ranks = 3, .leases = leases};
    const support::ZeroResult whole = support::learn(run);
    run.level = 3;
    support::StoreRecords records(run.ranks);
    support::ZeroResult cut;
    support::on_zero_ranks(
        run,
        [&](ZeroRank& rank) {
          rank.engine().initialise();
          support::train(rank, 0, run.steps, cut);
          rank.collect(cut);
          const double evaluated = rank.evaluate();
          if (rank.rank() == 0) cut.evaluated = evaluated;
        },
        records.checked());
    support::expect_equal(cut, whole);
    EXPECT_GT(records.of(0).size(), 20U);
    for (int rank = 1; rank < run.ranks; ++rank) EXPECT_TRUE(records.of(rank) == records.of(0));
  }
}

/// What a model for reading makes of seven tokens, on ranks that keep their weights at a level.
std::vector<float> logits(int level, int ranks, const arch::ModelConfig& model, const io::Path& checkpoint) {
  std::vector<float> all;
  comm::run_ranks(ranks, {.timeout = 60}, [&](comm::Communicator& world) {
    support::Machine machine(1);
    world.attach(*machine.stream, machine.runtime->team());
    const ZeroRun run{.ranks = ranks, .level = level};
    const parallel::Groups groups(world, layout::Mesh(run.plan()));
    Inference inference(model, DType::f32, *machine.runtime, *machine.ops, groups);
    inference.load(*checkpoint::open_together(world, checkpoint), machine.runtime->team());
    inference.prepack();
    support::TinyReader reader(inference.context(), machine);
    std::vector<std::int32_t> tokens{5, 1, 64, 0, 33, 7, 12};
    const Tensor text = view(std::span(tokens), Shape{7});
    for (int first = 0; first < 7; ++first) reader.read(text, first, 1);
    if (world.rank() == 0) all = support::values_of(reader.logits);
  });
  return all;
}

TEST(ZeroLeases, ReadersThatHavePartsReadTheSame) {
  for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama()}) {
    const TempFolder folder;
    io::Path checkpoint;
    support::on_zero_ranks({.ranks = 2, .level = 3, .model = model}, [&](ZeroRank& rank) {
      rank.engine().initialise();
      const auto report = save_run(folder.path(), rank.engine(), {}, Json::Object{}, rank.team());
      if (rank.rank() == 0) checkpoint = report.folder;
    });
    const std::vector<float> whole = logits(0, 1, model, checkpoint);
    for (const int ranks : {1, 3}) EXPECT_EQ(logits(3, ranks, model, checkpoint), whole) << ranks;
    EXPECT_EQ(logits(2, 3, model, checkpoint), whole);
  }
}

}  // namespace
}  // namespace lockstep::train
