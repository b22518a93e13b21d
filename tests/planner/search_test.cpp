// The search for the fastest layout.

#include "planner/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/units.h"
#include "support/planned_model.h"

namespace lockstep::planner {
namespace {

arch::ModelConfig eight_blocks() { return support::planned_model(8); }

SearchQuestion small_question(double memory) {
  Machine machine = *find_machine("a100");
  machine.devices = 4;
  machine.memory = memory;
  machine.reserved = 0;
  return {.work = Work(eight_blocks(), 256, machine), .global_batch = 16};
}

TEST(Search, EveryLegalLayoutIsLookedAtOnce) {
  const SearchQuestion question = small_question(80e9);
  std::set<std::string> seen;
  std::int64_t count = 0;
  enumerate(question, [&](const Candidate& one) {
    const layout::ParallelPlan& plan = one.plan;
    EXPECT_EQ(plan.ranks(), 4);
    EXPECT_EQ(plan.dp * one.samples * plan.microbatches, 16);
    ++count;
    std::string key;
    for (const int value :
         {plan.tp, plan.cp, plan.pp, plan.chunks, static_cast<int>(one.samples), static_cast<int>(plan.sequence),
          static_cast<int>(plan.recompute.kind), plan.recompute.every, static_cast<int>(plan.activations),
          static_cast<int>(plan.context), plan.tiles.out, static_cast<int>(plan.parameters.cut),
          static_cast<int>(plan.gradients.cut), static_cast<int>(plan.optimizer.cut), static_cast<int>(plan.optimizer.tier),
          static_cast<int>(plan.parameters.tier), static_cast<int>(plan.reduce)})
      key += std::to_string(value) + " ";
    seen.insert(key + plan.schedule);
  });
  EXPECT_EQ(std::ssize(seen), count);
  EXPECT_EQ(search(question, 3).legal, count);
}

TEST(Search, WhatItFindsFitsAndIsRanked) {
  for (const double memory : {80e9, 400e6, 200e6}) {
    const SearchQuestion question = small_question(memory);
    const SearchResult result = search(question, 5);
    ASSERT_FALSE(result.best.empty()) << memory;
    EXPECT_LE(result.best.size(), 5U);
    for (const Found& found : result.best) {
      EXPECT_LE(static_cast<double>(found.memory.bytes), memory);
      EXPECT_EQ(found.memory.bytes, device_memory(question.work, found.candidate).bytes);
      EXPECT_EQ(found.time.total(), simulated_time(question.work, found.candidate).total());
    }
    EXPECT_EQ(std::ranges::count_if(result.families, [](const Family& family) { return family.reason.empty(); }), 1);
    EXPECT_EQ(result.families.front().best->time.total(), result.best.front().time.total());
  }
}

TEST(Search, WhatDoesNotFitSaysWhatItNeeds) {
  const SearchResult result = search(small_question(200e6), 3);
  const auto ddp = std::ranges::find(result.families, "DDP", &Family::name);
  ASSERT_NE(ddp, result.families.end());
  EXPECT_FALSE(ddp->best);
  EXPECT_TRUE(ddp->reason.starts_with("does not fit: needs at least ")) << ddp->reason;
  const SearchResult none = search(small_question(1e5), 3);
  EXPECT_TRUE(none.best.empty());
  EXPECT_NE(none.needed.find(" of 97.66 KiB a device"), std::string::npos) << none.needed;
  EXPECT_TRUE(search(small_question(80e9), 3).needed.empty());
}

// What the formulas say fits, and the declarations do not, is told by the declarations.
TEST(Search, WhatIsNeededIsMoreThanThereIs) {
  const double most = 70e6;
  double last = 0;
  for (double memory = 10e6; memory <= most; memory += 5e6) {
    const SearchQuestion question = small_question(memory);
    const SearchResult result = search(question, 3);
    for (const Family& family : result.families) {
      if (family.best || !family.reason.starts_with("does not fit")) continue;
      EXPECT_TRUE(family.reason.starts_with("does not fit: needs at least ")) << memory << family.reason;
      const std::size_t of = family.reason.find(" of "), at = std::string("does not fit: needs at least ").size();
      if (of == std::string::npos) continue;
      const auto needs = bytes_from(family.reason.substr(at, of - at));
      ASSERT_TRUE(needs) << family.reason;
      EXPECT_GT(static_cast<double>(*needs), 0.99 * memory) << family.name << family.reason;
    }
    last = memory;
  }
  EXPECT_EQ(last, most);
}

TEST(Search, AHostThatIsTooSmallIsNamed) {
  SearchQuestion question = small_question(60e6);
  question.work.machine.host_memory = 1e6;
  question.work.machine.disk_rate = 0;
  bool named = false;
  for (const Family& family : search(question, 3).families)
    named = named || family.reason.find("of a node's memory") != std::string::npos;
  EXPECT_TRUE(named);
}

TEST(Search, PipelinesTakeAsLongAsTheirSimulation) {
  const Work work = small_question(80e9).work;
  Candidate candidate;
  candidate.plan.pp = 4;
  candidate.plan.microbatches = 16;
  const StepTime time = simulated_time(work, candidate);
  EXPECT_NEAR(time.total(), simulated(work, candidate).makespan + time.replicas + time.optimizer, 1e-9);
  EXPECT_NEAR(time.total(), step_time(work, candidate).total(), 0.1 * time.total());
}

TEST(Search, EstimatesAreNearWhatTheEngineDeclares) {
  const Work work(eight_blocks(), 256, *find_machine("a100"));
  Candidate candidate;
  candidate.samples = 64;
  for (const int pp : {1, 4}) {
    for (const auto kind : {layout::Recompute::Kind::none, layout::Recompute::Kind::full}) {
      candidate.plan.pp = pp;
      candidate.plan.microbatches = 8;
      candidate.plan.recompute = {kind, 1};
      const auto declared = static_cast<double>(device_memory(work, candidate).bytes);
      EXPECT_LT(estimated_bytes(work, candidate), 1.05 * declared);
      EXPECT_GT(estimated_bytes(work, candidate), 0.4 * declared);
    }
  }
}

TEST(Search, EverySettingOfALayoutIsLookedAt) {
  Machine machine = *find_machine("a100");
  machine.nodes = 2;
  machine.devices = 4;
  machine.memory = 60e6;
  machine.reserved = 0;
  const SearchQuestion question{.work = Work(eight_blocks(), 8192, machine), .global_batch = 16};
  std::set<layout::ContextMethod> methods;
  bool node = false, together = false, host = false, disk = false;
  enumerate(question, [&](const Candidate& one) {
    const layout::ParallelPlan& plan = one.plan;
    if (plan.cp > 1) methods.insert(plan.context);
    node = node || plan.parameters.cut == layout::CutOver::host;
    together = together || plan.recompute.every > 1;
    host = host || plan.activations == layout::Tier::host;
    disk = disk || plan.activations == layout::Tier::disk;
    if (plan.activations != layout::Tier::device) {
      EXPECT_TRUE(plan.pp == 1 || plan.schedule != "zb-h1") << "weight gradients come later";
    }
  });
  EXPECT_EQ(methods.size(), 4U) << "all that there are";
  EXPECT_TRUE(node && together && host && disk);
}

TEST(Search, GradientsAreCutInEveryMicrobatchWhereThatMakesThemFit) {
  const auto least = [](layout::ReduceEvery reduce) {
    const SearchQuestion question = small_question(80e9);
    double bytes = 1e30;
    enumerate(question, [&](const Candidate& one) {
      const layout::ParallelPlan& plan = one.plan;
      if (plan.reduce != reduce) return;
      if (reduce == layout::ReduceEvery::microbatch) {
        EXPECT_GE(layout::zero_level(plan), 2);
        EXPECT_GT(plan.microbatches, 1);
      }
      if (plan.dp == 4 && plan.microbatches == 4 && layout::zero_level(plan) == 2 && plan.optimizer.tier == layout::Tier::device)
        bytes = std::min(bytes, static_cast<double>(device_memory(question.work, one).bytes));
    });
    return bytes;
  };
  const double step = least(layout::ReduceEvery::step), microbatch = least(layout::ReduceEvery::microbatch);
  EXPECT_LT(microbatch, step);
  const SearchResult result = search(small_question(80e9), 1);
  EXPECT_EQ(result.best.front().candidate.plan.reduce, layout::ReduceEvery::step) << "other bits are not chosen for nothing";
}

TEST(Search, OtherSystemsHaveTheirOwnLayouts) {
  SearchQuestion question = small_question(80e9);
  const auto found = [&](const System& system) {
    question.work = Work(eight_blocks(), 256, question.work.machine, system);
    return search(question, 50).best;
  };
  for (const Found& one : found(fsdp)) {
    EXPECT_EQ(one.candidate.plan.tp * one.candidate.plan.pp, 1);
    EXPECT_EQ(one.candidate.plan.reduce == layout::ReduceEvery::microbatch, layout::zero_level(one.candidate.plan) >= 2);
    EXPECT_EQ(one.memory.bytes, device_memory(question.work, one.candidate).bytes);
  }
  for (const Found& one : found(megatron)) {
    EXPECT_LE(layout::zero_level(one.candidate.plan), 1);
    EXPECT_EQ(one.candidate.plan.reduce, layout::ReduceEvery::step);
    EXPECT_TRUE(one.candidate.plan.schedule == "1f1b" || one.candidate.plan.schedule == "interleaved");
  }
  for (const Found& one : found(deepspeed)) EXPECT_EQ(one.candidate.plan.tp, 1);
}

TEST(Search, AMicrobatchMayHoldAllSamplesOfARank) {
  const auto tried = [](std::int64_t global_batch) {
    SearchQuestion question = small_question(80e9);
    question.global_batch = global_batch;
    std::set<std::int64_t> sizes;
    enumerate(question, [&](const Candidate& one) {
      if (one.plan.dp == 4) sizes.insert(one.samples);
    });
    return sizes;
  };
  EXPECT_EQ(tried(4 * 12), (std::set<std::int64_t>{1, 2, 3, 4, 6, 12})) << "there are few";
  EXPECT_EQ(tried(4 * 7), (std::set<std::int64_t>{1, 7}));
  EXPECT_EQ(tried(4 * 48), (std::set<std::int64_t>{1, 2, 4, 8, 16, 48}));
  EXPECT_EQ(tried(4 * 192), (std::set<std::int64_t>{1, 2, 4, 8, 16, 32, 64, 192}));
}

TEST(Search, TensorRanksHaveToGainTwoPercent) {
  // With links that take no time, tensor ranks gain half of what adding gradients to their sums takes.
  const auto found = [](double gain) {
    SearchQuestion question = small_question(80e9);
    Machine& machine = question.work.machine;
    machine.devices = 2;
    machine.units = 0;
    machine.memory_rate = machine.inside_rate = 1e30;
    machine.inside_latency = 0;
    const Candidate half{.plan = {}, .samples = 8};
    const double free = step_time(question.work, half).total();
    machine.update_rate = 1e9;
    machine.update_rate *= (step_time(question.work, half).compute - free) / 2 / (gain * free);
    return search(question, 3);
  };
  const auto seconds = [](const SearchResult& result, std::string_view name) {
    return std::ranges::find(result.families, name, &Family::name)->best->time.total();
  };
  const SearchResult little = found(0.01), enough = found(0.04);
  EXPECT_EQ(little.best.front().candidate.plan.tp, 1);
  EXPECT_LT(seconds(little, "TP"), little.best.front().time.total());
  EXPECT_EQ(std::ranges::find(little.families, "TP", &Family::name)->reason, "gains too little by what it adds");
  EXPECT_EQ(enough.best.front().candidate.plan.tp, 2);
}

TEST(Search, FamiliesAreNamedByWhatDivides) {
  layout::ParallelPlan plan;
  EXPECT_EQ(family_of(plan), "one device");
  plan.dp = 8;
  EXPECT_EQ(family_of(plan), "DDP");
  layout::set_zero_level(plan, 2);
  EXPECT_EQ(family_of(plan), "ZeRO-2");
  plan.optimizer.tier = layout::Tier::host;
  EXPECT_EQ(family_of(plan), "offload");
  plan.optimizer.tier = layout::Tier::device;
  plan.activations = layout::Tier::host;
  EXPECT_EQ(family_of(plan), "offload");
  plan.tp = plan.pp = 2;
  EXPECT_EQ(family_of(plan), "TP + PP");
}

}  // namespace
}  // namespace lockstep::planner
