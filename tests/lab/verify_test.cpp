// What verify says of layouts that keep their promise, and of ranks that do something wrong.

#include "lab/verify/verify.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lab/verify_trials.h"
#include "support/faulty_ops.h"

namespace lockstep::lab {
namespace {

using comm::Collective;

/// The report of a layout that is its own.
LayoutReport report_of(std::string_view layout, const TrialParts& parts, const VerifyModel& model = small_model("gpt2")) {
  for (LayoutReport& report : reports_of(model, {std::string(layout)}, parts)) {
    if (report.wanted) return report;
  }
  ADD_FAILURE() << "no report of " << layout;
  return {};
}

bool is_float(const comm::Operation& operation, Collective kind) {
  return operation.kind == kind && operation.dtype == DType::f32;
}

/// Wrong, and the first thing that is said of it has all of `words`.
void expect_wrong(const LayoutReport& report, const std::vector<std::string>& words) {
  EXPECT_EQ(report.verdict, Verdict::wrong);
  ASSERT_FALSE(report.wrong.empty());
  for (const std::string& word : words)
    EXPECT_NE(report.wrong.front().find(word), std::string::npos) << word << " in: " << report.wrong.front();
}

TEST(Verify, LayoutsKeepTheirPromise) {
  for (const std::string& name : verify_model_names()) {
    for (const LayoutReport& report : reports_of(small_model(name), {"dp=2", "dp=2,zero=3", "dp=1,recompute=full", "dp=1"})) {
      EXPECT_TRUE(report.wrong.empty()) << report.layout << ": " << report.wrong.front();
      const bool sums = report.layout == "dp=2,gas=2";
      EXPECT_EQ(report.verdict, sums ? Verdict::within_tolerance : Verdict::bit_equal) << report.layout;
      EXPECT_EQ(report.promises_bits, !sums);
      EXPECT_EQ(report.error > 0, sums);
      EXPECT_EQ(report.worst.empty(), !sums);
      EXPECT_EQ(report.steps, 2);
    }
  }
}

TEST(Verify, CanonicalLayoutsHaveTheBitsOfOneRank) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const std::string& name : verify_model_names()) {
      if (name.starts_with("lora")) continue;  // which canonical layouts refuse
      for (const LayoutReport& report :
           reports_of(small_model(name, type), {"dp=2,canonical", "dp=4,gas=1,zero=3,canonical", "tp=2,sequence,canonical"})) {
        EXPECT_TRUE(report.wrong.empty()) << report.layout << ": " << report.wrong.front();
        EXPECT_EQ(report.verdict, Verdict::bit_equal) << report.layout;
        EXPECT_TRUE(report.promises_bits);
        EXPECT_EQ(report.against, "dp=1,gas=4,canonical");
      }
    }
  }
}

TEST(Verify, LayoutsKeepTheirPromiseInBf16) {
  for (const LayoutReport& report : reports_of(small_model("llama", DType::bf16), {"dp=2", "dp=2,zero=2"})) {
    EXPECT_TRUE(report.wrong.empty()) << report.layout << ": " << report.wrong.front();
    EXPECT_EQ(report.tolerance, report.promises_bits ? 0 : 2e-2);
  }
}

TEST(Verify, ThePlainLayoutIsProvenFirstThoughNoOneAskedForIt) {
  const std::vector<LayoutReport> reports =
      reports_of(small_model("gpt2"), {"dp=2,zero=1", "dp=1,recompute=full", "dp=2,zero=2"});
  ASSERT_EQ(reports.size(), 4U);
  EXPECT_EQ(reports[0].layout, "dp=2,gas=2");
  EXPECT_FALSE(reports[0].wanted);
  EXPECT_EQ(reports[0].against, "dp=1,gas=4");
  EXPECT_EQ(reports[1].layout, "dp=2,gas=2,zero=1");
  EXPECT_EQ(reports[1].against, "dp=2,gas=2");
  EXPECT_EQ(reports[2].layout, "dp=2,gas=2,zero=2");
  EXPECT_EQ(reports[3].layout, "dp=1,gas=4,recompute=full");
  EXPECT_EQ(reports[3].against, "dp=1,gas=4");
  EXPECT_TRUE(reports[3].promises_bits);
}

// The second reduction of a step is that of the second block, for the first bucket has the head, the tied matrix and the third.
TEST(Verify, ADroppedBucketIsNamed) {
  int seen = 0;
  const Fault drop = [seen](const comm::Operation& operation, int, comm::Communicator&) mutable {
    const bool bucket = is_float(operation, Collective::all_reduce) && operation.count > 20000;
    return bucket && seen++ == 1 ? std::optional<comm::Request>(std::in_place) : std::nullopt;
  };
  expect_wrong(report_of("dp=2", with_fault(drop)), {"step 0, layer h.1, rank ", "gradient of transformer.h.1."});
}

TEST(Verify, ABucketThatIsAddedTwiceIsNamed) {
  int seen = 0;
  const Fault twice = [seen](const comm::Operation& operation, int, comm::Communicator& world) mutable {
    const bool bucket = is_float(operation, Collective::all_reduce) && operation.count > 20000;
    if (bucket && seen++ == 4) world.all_reduce(operation.out, comm::Reduction::sum).wait();
    return std::optional<comm::Request>();
  };
  expect_wrong(report_of("dp=2", with_fault(twice)), {"step 1, layer h.1", "gradient of transformer.h.1."});
}

// A pair's answers have tokens on every rank that divides them.
TEST(Verify, APairThatIsJudgedByOneRanksTokensIsFound) {
  const Fault alone = [](const comm::Operation& operation, int, comm::Communicator&) {
    const bool samples = operation.kind == Collective::all_reduce && operation.dtype == DType::f64 && operation.count == 4;
    return samples ? std::optional<comm::Request>(std::in_place) : std::nullopt;
  };
  EXPECT_EQ(reports_of(small_model("dpo"), {"cp=2"})[0].verdict, Verdict::within_tolerance);
  EXPECT_EQ(reports_of(small_model("dpo"), {"cp=2"}, with_fault(alone))[0].verdict, Verdict::wrong);
}

TEST(Verify, AMeanInPlaceOfASumIsFound) {
  const Fault mean = [](const comm::Operation& operation, int, comm::Communicator& world) {
    const bool sum = operation.dtype == DType::f32 && operation.reduction == comm::Reduction::sum;
    return sum && (operation.kind == Collective::all_reduce || operation.kind == Collective::reduce_scatter)
               ? std::optional(FaultyWorld::pass(operation, comm::Reduction::mean, world))
               : std::nullopt;
  };
  for (const char* layout : {"dp=2", "dp=2,zero=2", "dp=2,zero=3,reduce=microbatch"}) {
    const LayoutReport report = report_of(layout, with_fault(mean));
    expect_wrong(report, {"step 0", "gradient of transformer.ln_f.weight", "differs by 5.0e-01"});
  }
}

// After the first update the ranks of ZeRO-1 do not give each other the second block's new weights.
TEST(Verify, AStaleGatherIsNamed) {
  int blocks = 0, updates = 0;
  const Fault stale = [blocks, updates](const comm::Operation& operation, int, comm::Communicator&) mutable {
    if (operation.kind == Collective::reduce_scatter || operation.kind == Collective::all_reduce)
      updates += operation.count > 20000;
    const bool block = is_float(operation, Collective::all_gather) && operation.count > 30000;
    return block && blocks++ % 3 == 1 && updates > 0 ? std::optional<comm::Request>(std::in_place) : std::nullopt;
  };
  expect_wrong(report_of("dp=2,zero=1", with_fault(stale)), {"step 1, layer h.1, rank ", ": reading transformer.h.1."});
}

// At ZeRO-3 a block is read in a place that still has another one's weights.
TEST(Verify, AGatherThatDoesNotComeIsNamed) {
  int blocks = 0;
  const Fault missing = [blocks](const comm::Operation& operation, int, comm::Communicator&) mutable {
    const bool block = is_float(operation, Collective::all_gather) && operation.count > 30000;
    return block && blocks++ == 8 ? std::optional<comm::Request>(std::in_place) : std::nullopt;
  };
  expect_wrong(report_of("dp=2,zero=3", with_fault(missing)), {"layer h.", ": reading transformer.h."});
}

// A stage goes on with what an earlier micro-batch left there.
TEST(Verify, AMessageBetweenStagesThatIsLostIsFound) {
  int received = 0;
  const Fault lose = [received](const comm::Operation& operation, int, comm::Communicator& world) mutable {
    if (operation.kind != Collective::receive || world.rank() == 0 || received++ != 2) return std::optional<comm::Request>();
    std::vector<std::byte> elsewhere(operation.out.bytes());
    Tensor lost = operation.out;
    lost.data = elsewhere.data();
    world.receive(lost, operation.root).wait();
    return std::optional<comm::Request>(std::in_place);
  };
  expect_wrong(report_of("pp=2", with_fault(lose)), {"step 0", "gradient of "});
}

// Losses, norms, weights and the optimizer's slots, which they fetch as a checkpoint does.
TEST(Verify, WorkersOfServersHaveTheBitsOfRanksThatTrainTogether) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const LayoutReport& report :
         reports_of(small_model("gpt2", type), {"dp=1,ps=1", "dp=2,ps=1", "dp=3,ps=2,recompute=full"})) {
      if (report.layout.find("ps=") == std::string::npos) continue;
      EXPECT_EQ(report.verdict, Verdict::bit_equal) << report.layout << ": " << (report.wrong.empty() ? "" : report.wrong[0]);
    }
  }
}

// The server adds what it got before.
TEST(Verify, AGradientThatDoesNotReachItsServerIsFound) {
  int received = 0;
  const Fault lose = [received](const comm::Operation& operation, int, comm::Communicator& world) mutable {
    const bool pushed = world.rank() == 2 && is_float(operation, Collective::receive) && operation.count > 1000;
    if (!pushed || received++ != 9) return std::optional<comm::Request>();
    std::vector<std::byte> elsewhere(operation.out.bytes());
    Tensor lost = operation.out;
    lost.data = elsewhere.data();
    world.receive(lost, operation.root).wait();
    return std::optional<comm::Request>(std::in_place);
  };
  expect_wrong(report_of("dp=2,ps=1", with_fault(lose)), {"step "});
}

TEST(Verify, AMicroBatchThatIsReadTwiceIsFound) {
  TrialParts parts;
  parts.batches = [](int rank, std::span<data::Batch> batches) {
    if (rank == 1) batches[1] = batches[0];
  };
  const LayoutReport report = report_of("dp=2", parts);
  expect_wrong(report, {"step 0", "gradient of "});
  EXPECT_GT(report.error, 0.01);
}

// Rank 1 drops what rank 0 drops.
TEST(Verify, AReusedRandomStreamIsFound) {
  TrialParts parts;
  parts.batches = [](int rank, std::span<data::Batch> batches) {
    for (std::size_t m = 0; rank == 1 && m < batches.size(); ++m) batches[m].first_sample -= 4;
  };
  expect_wrong(report_of("dp=2", parts), {"step 0", "gradient of "});
  EXPECT_NE(report_of("dp=2", parts, small_model("llama")).verdict, Verdict::wrong) << "which has no dropout";
}

/// Kernels of the ranks from 1 on.
TrialParts with_ops(const support::OpsFault& fault) {
  TrialParts parts;
  parts.ops = [fault](std::unique_ptr<ops::Ops> usual, int rank) -> std::unique_ptr<ops::Ops> {
    if (rank == 0) return usual;
    return std::make_unique<support::FaultyOps>(std::move(usual), fault);
  };
  return parts;
}

// Tensors of attention's sub-layer. Its norm's gain is farthest off where gradients through queries and keys are wrong.
bool is_of_attention(const std::string& tensor) {
  return tensor.find(".attn.") != std::string::npos || tensor.find(".ln_1.") != std::string::npos;
}

TEST(Verify, AMaskOfOtherHeadsIsFound) {
  const auto shifted = [](ops::AttentionShape&, ops::DropoutSite& dropout) { dropout.first_index += 1; };
  for (const char* layout : {"tp=2", "tp=2,sequence", "dp=2,tp=2,zero=3"}) {
    const LayoutReport report = report_of(layout, with_ops({.attention = shifted}));
    expect_wrong(report, {"step 0", "gradient of "});
    EXPECT_TRUE(is_of_attention(report.worst)) << report.worst;
  }
}

// Six heads share three key/value heads: those of rank 1 read number 1, then twice number 2.
TEST(Verify, AKeyValueHeadOfTheWrongRankIsFound) {
  const auto wrong_head = [](ops::AttentionShape& shape, ops::DropoutSite&) { shape.skipped = 0; };
  VerifyModel model = small_model("llama");
  model.config.kv_heads = 3;
  const LayoutReport report = report_of("tp=2", with_ops({.attention = wrong_head}), model);
  expect_wrong(report, {"step 0", "gradient of "});
  EXPECT_TRUE(is_of_attention(report.worst)) << report.worst;
}

// Keys that pass by are taken for those of a sample's first positions.
TEST(Verify, AMaskOfOtherKeysIsFound) {
  const auto moved = [](ops::AttentionShape& shape, ops::DropoutSite&) { shape.first_key = 0; };
  const LayoutReport report = report_of("cp=2,context=ring", with_ops({.attention = moved}));
  expect_wrong(report, {"step 0", "gradient of "});
  EXPECT_TRUE(is_of_attention(report.worst)) << report.worst;
}

// Rank 1 sees keys before the document that a query is in.
TEST(Verify, AMaskThatCrossesADocumentsEndIsFound) {
  for (const char* layout :
       {"dp=2,documents", "cp=2,documents", "cp=2,context=ring,documents", "cp=2,context=ulysses,documents"}) {
    const LayoutReport report = report_of(layout, with_ops({.masks_samples = true}));
    expect_wrong(report, {"step 0", "gradient of "});
    EXPECT_TRUE(is_of_attention(report.worst)) << layout << ": " << report.worst;
  }
}

// Rank 1 counts positions from the start of the sample: those that are learned, and those by which queries and keys are turned.
// Only differences matter between turned ones. So the fault needs keys of a rank that counts as it should.
TEST(Verify, PositionsThatADocumentDoesNotRestartAreFound) {
  const LayoutReport learned = report_of("dp=2,documents", with_ops({.positions_of_samples = true}));
  expect_wrong(learned, {"step 0", "gradient of "});
  EXPECT_EQ(learned.worst, "gradient of transformer.wpe.weight");
  for (const char* layout : {"cp=2,documents", "cp=2,context=ring,documents"}) {
    const LayoutReport turned = report_of(layout, with_ops({.positions_of_samples = true}), small_model("llama"));
    expect_wrong(turned, {"step 0", "gradient of "});
    EXPECT_TRUE(is_of_attention(turned.worst)) << layout << ": " << turned.worst;
  }
}

// The second rank of each of two hosts has heads 3 to 5. They read key/value heads 1, 2 and 2; the fault reads 1, 1 and 2.
TEST(Verify, AKeyValueHeadThatIsExchangedToTheWrongRankIsFound) {
  const auto wrong_head = [](ops::AttentionShape& shape, ops::DropoutSite&) { shape.skipped = 0; };
  VerifyModel model = small_model("llama");
  model.config.kv_heads = 3;
  const LayoutReport report = report_of("cp=4,context=ulysses+ring", with_ops({.attention = wrong_head}), model);
  expect_wrong(report, {"step 0", "gradient of "});
  EXPECT_TRUE(is_of_attention(report.worst)) << report.worst;
}

// The second host goes on with the keys that it had: those of the first come, and are put elsewhere.
TEST(Verify, KeysThatDoNotGoRoundTheHostsAreFound) {
  const Fault stale = [](const comm::Operation& operation, int, comm::Communicator& world) {
    if (operation.kind != Collective::receive || world.rank() == 0) return std::optional<comm::Request>();
    std::vector<std::byte> elsewhere(operation.out.bytes());
    Tensor lost = operation.out;
    lost.data = elsewhere.data();
    world.receive(lost, operation.root).wait();
    return std::optional<comm::Request>(std::in_place);
  };
  const LayoutReport report = report_of("cp=4,context=ulysses+ring", with_fault(stale));
  expect_wrong(report, {"step 0", "gradient of "});
  EXPECT_TRUE(is_of_attention(report.worst)) << report.worst;
}

TEST(Verify, AKeyThatIsChangedOnItsWayRoundIsFound) {
  const Fault change = [](const comm::Operation& operation, int, comm::Communicator& world) -> std::optional<comm::Request> {
    if (operation.kind != Collective::receive) return std::nullopt;
    world.receive(operation.out, operation.root).wait();
    elements<float>(operation.out).front() += 1;
    return comm::Request();
  };
  expect_wrong(report_of("cp=2,context=ring", with_fault(change)), {"step 0", "gradient of "});
}

TEST(Verify, ABiasThatIsAddedOnEveryRankIsFound) {
  TrialParts parts;
  parts.ops = [](std::unique_ptr<ops::Ops> usual, int) {
    return std::make_unique<support::FaultyOps>(std::move(usual), support::OpsFault{.bias_twice = true});
  };
  const LayoutReport report = report_of("tp=2", parts);
  expect_wrong(report, {"step 0", "gradient of "});
  EXPECT_NE(report_of("tp=2", parts, small_model("llama")).verdict, Verdict::wrong) << "which has no biases";
}

// With sequence parallelism gains have parts of their gradients on each rank, and nothing else is added over all of them.
TEST(Verify, AGainWhosePartsAreNotAddedIsNamed) {
  const Fault drop = [](const comm::Operation& operation, int, comm::Communicator&) {
    return is_float(operation, Collective::all_reduce) ? std::optional<comm::Request>(std::in_place) : std::nullopt;
  };
  expect_wrong(report_of("tp=2,sequence", with_fault(drop), small_model("llama")),
               {"step 0, layer head", "gradient of transformer.ln_f.weight"});
}

TEST(Verify, ARankThatDrawsOtherStartValuesIsNamed) {
  TrialParts parts;
  parts.store = [](const parallel::ParameterMemory& memory, const parallel::Groups& groups, Stream& stream) {
    // The first parameter of the last unit, on one rank.
    class Other final : public parallel::ParameterStore {
     public:
      explicit Other(std::unique_ptr<parallel::ParameterStore> store) : store_(std::move(store)) {}
      const std::vector<layout::Unit>& units() const override { return store_->units(); }
      DType dtype() const override { return store_->dtype(); }
      DType owned_dtype() const override { return store_->owned_dtype(); }
      parallel::Lease lease(const layout::Access& access) override { return store_->lease(access); }
      void begin(const std::vector<layout::Access>& order) override { store_->begin(order); }
      Shard shard(UnitIndex unit) override { return store_->shard(unit); }
      void updated(Changed what) override {
        const UnitIndex last{static_cast<int>(units().size()) - 1};
        if (!std::exchange(done_, true)) elements<float>(store_->shard(last).master).front() = 7;
        store_->updated(what);
      }
      void add_packed(UnitIndex unit, const parallel::PackedMatrix& matrix) override { store_->add_packed(unit, matrix); }

     private:
      void release(const layout::Access& /*access*/) noexcept override {}
      std::unique_ptr<parallel::ParameterStore> store_;
      bool done_ = false;
    };
    std::unique_ptr<parallel::ParameterStore> usual = parallel::make_parameter_store(memory, groups, stream);
    if (groups.all().rank() != 1) return usual;
    return std::unique_ptr<parallel::ParameterStore>(std::make_unique<Other>(std::move(usual)));
  };
  expect_wrong(report_of("dp=2", parts),
               {"step 0, layer head, rank 1: start of transformer.ln_f.weight", "element 0: 7 instead of 1"});
}

TEST(Verify, ElementsThatNoRankAnswersForAreToldOf) {
  const VerifyModel model = small_model("gpt2");
  const RunRecord record(model, Layout{}, 1);
  Comparison comparison(record, Going::free, 1);
  EXPECT_TRUE(comparison.findings().empty());
  const auto observer = comparison.observer(0);
  const std::vector<std::string> all = comparison.miscounted();
  EXPECT_EQ(all.size(), 3 * record.whole.parameters.size());
  EXPECT_EQ(all.back(), "ranks answer for 0 of the 3456 elements of the weights of transformer.wpe.weight");
}

TEST(Verify, StepsAndLayoutsOutOfRangeAreRefused) {
  const std::vector<Problem> problems = check(VerifyOptions{.models = {small_model("gpt2")}, .layouts = {}, .steps = 0});
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_TRUE(problems[0].message.starts_with("--steps 0: must be from 1"));
  EXPECT_TRUE(problems[1].message.starts_with("--layouts: there is none"));
}

}  // namespace
}  // namespace lockstep::lab
