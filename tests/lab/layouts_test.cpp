// Layouts as texts.

#include "lab/layouts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "lab/verify/verify_model.h"

namespace lockstep::lab {
namespace {

Layout layout(std::string_view text) {
  std::vector<Problem> problems;
  const std::optional<Layout> read = layout_from(text, problems);
  for (const Problem& problem : problems) ADD_FAILURE() << problem.message;
  return read.value_or(Layout{});
}

TEST(Layouts, WordsMakeAPlan) {
  const Layout made = layout("dp=4,gas=2,zero=3,zero_group=node,recompute=every:3,reduce=microbatch,prefetch=2,reshard=false");
  EXPECT_EQ(made.plan.dp, 4);
  EXPECT_EQ(made.microbatches(), 8);
  EXPECT_EQ(made.plan.parameters.cut, layout::CutOver::host);
  EXPECT_EQ(made.plan.ranks_per_host, 2);
  EXPECT_EQ(made.plan.recompute, (layout::Recompute{layout::Recompute::Kind::full, 3}));
  EXPECT_EQ(made.plan.reduce, layout::ReduceEvery::microbatch);
  EXPECT_EQ(made.plan.prefetch, 2);
  EXPECT_FALSE(made.plan.reshard_after_forward);
  EXPECT_FALSE(layout("overlap=false").gradients.overlap);
  EXPECT_EQ(layout("bucket=5").gradients.bucket_bytes, 5);
  EXPECT_EQ(layout("moments=bf16").moments, DType::bf16);
  EXPECT_TRUE(layout("dp=2,canonical").plan.canonical);
}

TEST(Layouts, AStepHasFourMicroBatchesUnlessItIsSaid) {
  EXPECT_EQ(layout("dp=1").plan.microbatches, 4);
  EXPECT_EQ(layout("dp=2").plan.microbatches, 2);
  EXPECT_EQ(layout("dp=3").plan.microbatches, 2);
  EXPECT_EQ(layout("dp=8").plan.microbatches, 1);
  EXPECT_EQ(layout("gas=3,dp=2").microbatches(), 6);
}

// Whoever types layouts' words is answered in them.
TEST(Layouts, WhatIsWrongIsSaidInTheirWords) {
  const layout::PlanLimits limits{
      .layers = 4, .heads = 6, .ffn_width = 16, .vocabulary = 64, .positions = 16, .in_features = 8, .out_features = 8};
  std::size_t found = 0;
  for (const char* text : {"tp=7", "tp=2,sequence,cp=3,context=ulysses", "dp=3,zero=2,zero_group=node,ranks_per_host=2",
                           "sequence", "pp=8", "pp=2,split=1+1+1", "virtual_stages=2", "dp=2,offload=params", "recompute=every:9",
                           "tiles=9x9", "canonical,dp=3", "canonical,tp=2,cp=3,context=ring", "canonical,tiles=1x2",
                           "pp=2:zb-v,virtual_stages=3", "canonical,gas=2,reduce=microbatch", "pp=2:zb-h1,offload=activations",
                           "pp=2:none", "tp=3,ranks_per_host=2", "cp=4,context=ulysses+ring,ranks_per_host=3"}) {
    const Layout made = layout(text);
    for (const int ranks : {made.plan.ranks(), 5}) {
      for (const Problem& problem : check(made, limits, ranks)) {
        ++found;
        for (const std::string& said : {problem.message, problem.remedy}) {
          for (const char* group : {"parallel.", "memory.", "numerics.", "optimizer.", "model."})
            EXPECT_EQ(said.find(group), std::string::npos) << said;
        }
      }
    }
  }
  EXPECT_GT(found, 40U);
  EXPECT_EQ(check(layout("tp=7"), limits, 7).at(0).remedy, "tp=6 or less");
  EXPECT_EQ(check(layout("tp=2,cp=2,pp=2,sequence"), limits, 1).at(0).remedy,
            "start 8 ranks or a multiple of it, or divide the model among none: dp=N tp=1 no sequence cp=1 pp=1");
}

TEST(Layouts, ServersHaveRanksOfTheirOwnAndSayWhomTheyCannotServe) {
  const Layout served = layout("dp=2,ps=3,recompute=full");
  EXPECT_EQ(served.ranks(), 5);
  EXPECT_EQ(served.plan.ranks(), 2);
  EXPECT_EQ(name_of(served), "dp=2,gas=2,recompute=full,ps=3");
  EXPECT_EQ(name_of(plain(served)), "dp=2,gas=2") << "whose sums they make";
  EXPECT_EQ(name_of(one_rank(served)), "dp=1,gas=4");
  const layout::PlanLimits limits = verify_model("gpt2", DType::f32).limits();
  EXPECT_TRUE(check(served, limits, 2).empty());
  for (const auto& [words, said, remedy] :
       {std::tuple("tp=2", "tp = 2: parameter servers serve workers that have whole layers", "no ps, or tp=1"),
        {"pp=2", "pp = 2: parameter servers serve workers that have all layers", "no ps, or pp=1"},
        {"cp=2", "cp = 2: parameter servers serve workers that have whole sequences", "no ps, or cp=1"},
        {"tp=2,sequence", "sequence: workers of parameter servers have whole sequences", "no ps, or no sequence"},
        {"dp=2,zero=1", "zero = 1: parameter servers have the optimizer's state, and their workers all weights",
         "no ps, or zero=0"},
        {"dp=2,reduce=microbatch", "reduce = microbatch: parameter servers get one gradient a step", "no ps, or reduce=step"},
        {"offload=optimizer", "offload=optimizer = nvme: parameter servers have the optimizer's state",
         "no ps, or optimizer out of offload"},
        {"offload=params", "offload=params = nvme: workers of parameter servers keep all weights in memory",
         "no ps, or params out of offload"},
        {"canonical", "canonical: parameter servers add up gradients by workers", "no ps, or no canonical"}}) {
    const Layout made = layout(std::string(words) + ",ps=1");
    const std::vector<Problem> problems = check(made, limits, made.plan.ranks());
    const auto found = std::ranges::find_if(problems, [&](const Problem& problem) {
      return problem.message.find(said) != std::string::npos && problem.remedy == remedy;
    });
    EXPECT_NE(found, problems.end()) << words << ": " << (problems.empty() ? "" : problems[0].message + problems[0].remedy);
  }
}

TEST(Layouts, WordsAreSettingsOfARunToo) {
  std::vector<Problem> problems;
  EXPECT_EQ(
      settings_from("dp=2,tp=2,pp=2:zb-v,split=3+1,sequence,offload=params,gas=3,model.n_layer=4,ps=2,moments=bf16", problems),
      (std::vector<std::string>{"parallel.dp=2", "parallel.tp=2", "parallel.pp=2", "parallel.schedule=zb-v", "parallel.split=3,1",
                                "parallel.sequence=true", "memory.offload_optimizer=none", "memory.offload_params=nvme",
                                "memory.offload_activations=none", "optimizer.gas=3", "model.n_layer=4", "train.backend=ps",
                                "parallel.servers=2", "optimizer.moments=bf16"}));
  EXPECT_TRUE(problems.empty());
  settings_from("dp=2,dp=3,td=1", problems);
  EXPECT_EQ(problems.size(), 2U);
}

TEST(Layouts, ADegreeBeyondTheLimitIsToldTheLimit) {
  std::vector<Problem> problems;
  EXPECT_FALSE(layout_from("dp=1000", problems).has_value());
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].message, "dp=1000 in the layout dp=1000: must be dp=N, N from 1 to 64");
}

TEST(Layouts, NamesAreReadBack) {
  for (const char* list : {"quick", "all"}) {
    for (const std::string& text : layout_list(list)) {
      const std::string name = name_of(layout(text));
      EXPECT_EQ(name_of(layout(name)), name) << text;
      EXPECT_EQ(layout(name).plan, layout(text).plan) << text;
    }
  }
}

TEST(Layouts, ListsHaveLayoutsOfEveryModelOnce) {
  for (const char* list : {"quick", "all"}) {
    std::set<std::string> seen;
    for (const std::string& text : layout_list(list)) {
      const Layout made = layout(text);
      EXPECT_TRUE(seen.insert(name_of(made)).second) << text;
      for (const std::string& model : verify_model_names()) {
        // What adapters cannot have is left out of their lists.
        for (const Problem& problem : check(made, verify_model(model, DType::f32).limits(), made.plan.ranks()))
          EXPECT_TRUE(model.starts_with("lora") && problem.remedy.find("adapter.rank=0") != std::string::npos) << problem.message;
      }
    }
  }
  EXPECT_GE(layout_list("all").size(), 80U);
}

TEST(Layouts, ThePlainLayoutKeepsWhatChangesSums) {
  EXPECT_EQ(name_of(plain(layout("dp=2,zero=3,recompute=full,overlap=false,bucket=1,prefetch=0"))), "dp=2,gas=2");
  EXPECT_EQ(name_of(plain(layout("dp=2,zero=1,reduce=microbatch,moments=bf16"))), "dp=2,gas=2,reduce=microbatch,moments=bf16");
  EXPECT_EQ(name_of(plain(layout("dp=2,gas=1,reduce=microbatch"))), "dp=2,gas=1");
  EXPECT_EQ(name_of(plain(layout("cp=2,zero=3,reduce=microbatch"))), "dp=1,cp=2,gas=4,reduce=microbatch");
  EXPECT_EQ(name_of(plain(layout("dp=2,zero=3,tiles=2x4"))), "dp=2,gas=2");
  EXPECT_EQ(name_of(plain(layout("dp=1,recompute=full,reduce=microbatch"))), "dp=1,gas=4");
  EXPECT_EQ(name_of(one_rank(layout("dp=3,gas=2,zero=3,moments=bf16"))), "dp=1,gas=6,moments=bf16");
  EXPECT_EQ(name_of(plain(layout("dp=2,zero=3,canonical"))), "dp=2,gas=2,canonical");
  EXPECT_EQ(name_of(one_rank(layout("dp=2,tp=2,canonical"))), "dp=1,gas=4,canonical");
}

TEST(Layouts, WhatIsNoLayoutIsRefusedWithARemedy) {
  const auto refusal = [](std::string_view text) {
    std::vector<Problem> problems;
    EXPECT_FALSE(layout_from(text, problems)) << text;
    return problems.empty() ? std::string() : UserError(problems).what();
  };
  EXPECT_NE(refusal("dp=2,zer=1").find("zer in the layout dp=2,zer=1: no layout has this word\n  -> did you mean zero?"),
            std::string::npos);
  EXPECT_NE(refusal("").find("has an empty word"), std::string::npos);
  EXPECT_NE(refusal("dp=2,").find("has an empty word"), std::string::npos);
  EXPECT_NE(refusal("dp=2,tp=2,dp=3").find("dp=3 in the layout dp=2,tp=2,dp=3: dp is there before"), std::string::npos);
  for (const char* text :
       {"dp=0", "dp=two", "dp", "dp=2x", "gas=0", "zero=4", "zero_group=rack", "reduce=often", "prefetch=-1", "reshard=no",
        "recompute=every:0", "overlap=", "bucket=0", "moments=fp8", "tiles=4", "tiles=0x1", "ranks_per_host=0", "ps=0", "ps"}) {
    EXPECT_NE(refusal(text).find("must be"), std::string::npos) << text;
  }
  const std::string two = refusal("zero=7,dp=x");
  EXPECT_NE(two.find("zero=7"), std::string::npos);
  EXPECT_NE(two.find("dp=x"), std::string::npos);
}

TEST(Layouts, WhatAModelCannotHaveIsNamedWithItsLayout) {
  const layout::PlanLimits limits = verify_model("gpt2", DType::f32).limits();
  const auto problems = check(layout("dp=3,zero=1,zero_group=node,recompute=every:9"), limits, 3);
  ASSERT_EQ(problems.size(), 2U);
  for (const Problem& problem : problems)
    EXPECT_TRUE(problem.message.starts_with("layout dp=3,gas=2,zero=1,")) << problem.message;
}

}  // namespace
}  // namespace lockstep::lab
