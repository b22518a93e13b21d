// Seconds of blocks, exchanges and steps, where they can be told by hand.

#include "planner/step_time.h"

#include <gtest/gtest.h>

#include "support/planned_model.h"

namespace lockstep::planner {
namespace {

/// A machine that computes at 1 TFLOPS whatever the shape, and whose memory takes no time.
Machine plain_machine() {
  Machine machine;
  machine.memory = 1e12;
  machine.peak_flops = 1e12;
  machine.product_share = 1;
  machine.memory_rate = 1e30;
  machine.inside_rate = 100e9;
  machine.between_rate = 10e9;
  machine.host_rate = 10e9;
  return machine;
}

arch::ModelConfig four_blocks() { return support::planned_model(4); }

Work plain_work() { return {four_blocks(), 256, plain_machine()}; }

TEST(StepTime, ProductsAndAttentionAreTheirFlops) {
  const BlockWork work = block_work(four_blocks(), {2, 256}, {}, plain_machine(), own_system);
  const double rows = 512, linear = 2 * rows * 512 * (3 * 512 + 512 + 4 * 512 + 4 * 512), scores = 2 * 8 * 256.0 * (256 + 64) / 2;
  EXPECT_NEAR(work.forward, (linear + 4 * scores * 64) / 1e12, 1e-12);
  EXPECT_NEAR(work.input_backward, (linear + 2.5 * 4 * scores * 64) / 1e12, 1e-12);
  EXPECT_NEAR(work.weight_backward, linear / 1e12, 1e-12);
  EXPECT_EQ(work.recompute, 0);
  EXPECT_EQ(work.exchange, 0);
}

TEST(StepTime, LayersThatSeeAWindowAttendToItsTiles) {
  const TiledAttention whole = tiled_attention(1, 512, 512, 64, 512), window = tiled_attention(1, 512, 512, 64, 128);
  double pairs = 0;  // a query and the tiles of 64 keys that it sees something of, in the mean over where it stands in its own
  for (int query = 0; query < 512; ++query) pairs += std::min(query + 1, 128) + (query < 128 ? 32 : 64);
  EXPECT_NEAR(window.forward, 4 * 64 * pairs, 0.01 * window.forward);
  arch::ModelConfig model = four_blocks();
  const BlockWork before = block_work(model, {1, 512}, {}, plain_machine(), own_system);
  model.window = 128;
  model.global_every = 4;
  const BlockWork after = block_work(model, {1, 512}, {}, plain_machine(), own_system);
  EXPECT_NEAR(before.forward - after.forward, 8 * 0.75 * (whole.forward - window.forward) / 1e12, 1e-12);
  EXPECT_NEAR(before.input_backward - after.input_backward, 8 * 0.75 * (whole.backward - window.backward) / 1e12, 1e-12);
  EXPECT_EQ(after.weight_backward, before.weight_backward);
}

TEST(StepTime, SumsAndAttentionHaveCostsOfTheirOwn) {
  Machine machine = plain_machine();
  const double endless = product_seconds(512, 128, 512, machine, 2);
  const BlockWork before = block_work(four_blocks(), {2, 256}, {}, machine, own_system);
  machine.attention_share = 0.5;
  const BlockWork slower = block_work(four_blocks(), {2, 256}, {}, machine, own_system);
  EXPECT_NEAR(slower.forward - before.forward, tiled_attention(2 * 8, 256, 256, 64, 256).forward / 1e12, 1e-12);
  EXPECT_EQ(slower.weight_backward, before.weight_backward);
  machine.product_depth = 32;
  EXPECT_NEAR(product_seconds(512, 128, 512, machine, 2), endless * 160 / 128, 1e-12);
}

TEST(StepTime, AProductHasTheWavesOfItsTiles) {
  Machine machine = plain_machine();
  const double full = product_seconds(1024, 64, 1024, machine, 2);
  machine.units = 17;  // 32 tiles of 128 x 256 are two waves
  EXPECT_NEAR(product_seconds(1024, 64, 1024, machine, 2), full * 34 / 32, 1e-15);
  machine.units = 0;
  machine.memory_rate = 1e6;
  EXPECT_NEAR(product_seconds(1024, 64, 1024, machine, 2), 2 * (2 * 1024 * 64 + 1024 * 1024) / 1e6, 1e-9);
}

TEST(StepTime, ProductsOfF32HaveTheirOwnRateAndTwiceTheBytes) {
  Machine machine = plain_machine();
  EXPECT_EQ(machine.product_rate(2), 1e12);
  EXPECT_EQ(machine.product_rate(4), 0.5e12) << "half, where the machine does not say";
  machine.f32_share = 0.8;
  EXPECT_EQ(machine.product_rate(4), 0.8e12);
  EXPECT_NEAR(product_seconds(1024, 64, 1024, machine, 4), 2.0 * 1024 * 64 * 1024 / 0.8e12, 1e-15);
  machine.memory_rate = 1e6;
  EXPECT_NEAR(product_seconds(1024, 64, 1024, machine, 4), 2 * product_seconds(1024, 64, 1024, machine, 2), 1e-9);
}

TEST(StepTime, UpdatesAndSumsOfGradientsGoAtTheRateInPlace) {
  Work work = plain_work();
  work.machine.memory_rate = 1e9;
  EXPECT_EQ(work.machine.in_place_rate(), 1e9) << "memory's, where the machine does not say";
  const double at_memory_rate = step_end(work, {}, 0, 0).optimizer;
  EXPECT_NEAR(at_memory_rate, 28 * work.parameters / 1e9, 1e-9);
  const BlockWork before = block_work(work.model, {1, 256}, {}, work.machine, work.system);
  work.machine.update_rate = 2e9;
  EXPECT_NEAR(step_end(work, {}, 0, 0).optimizer, at_memory_rate / 2, 1e-9);
  const BlockWork after = block_work(work.model, {1, 256}, {}, work.machine, work.system);
  const double weights = 512 * (3 * 512 + 512 + 4 * 512 + 4 * 512);
  EXPECT_NEAR(before.weight_backward - after.weight_backward, 8 * weights * (1 / 1e9 - 1 / 2e9), 1e-9);
  EXPECT_EQ(before.forward, after.forward);
}

TEST(StepTime, AMachineWhoseUpdatesGoBackwardsIsNone) {
  Machine machine = plain_machine();
  EXPECT_TRUE(check(machine).empty());
  machine.update_rate = -1;
  ASSERT_EQ(check(machine).size(), 1U);
  EXPECT_TRUE(check(machine).front().message.starts_with("update_gbps = -1: must be 0 or above"));
}

TEST(StepTime, RanksThatShareAHostDivideIt) {
  Machine machine = plain_machine();
  machine.devices = 2;
  machine.update_rate = 4e9;
  const Machine one = divided(machine, 1), four = divided(machine, 4);
  EXPECT_EQ(one.peak_flops, 2e12);
  EXPECT_EQ(four.peak_flops, 0.5e12);
  EXPECT_EQ(four.memory, machine.memory / 2);
  EXPECT_EQ(four.memory_rate, machine.memory_rate / 2);
  EXPECT_EQ(four.update_rate, 2e9);
  EXPECT_EQ(four.inside_rate, machine.inside_rate);
  EXPECT_EQ(four.ranks(), 4);
}

TEST(StepTime, RanksThatDivideALayerExchangeItsSums) {
  layout::ParallelPlan plan;
  plan.tp = 4;
  const BlockWork work = block_work(four_blocks(), {2, 256}, plan, plain_machine(), own_system);
  EXPECT_NEAR(work.exchange, 2 * 2 * 0.75 * 4 * 512 * 512 / 100e9, 1e-12);
  plan.recompute = {layout::Recompute::Kind::full, 1};
  const BlockWork full = block_work(four_blocks(), {2, 256}, plan, plain_machine(), own_system);
  const double down = 2 * 512 * 512 * (2048.0 / 4) / 1e12;
  EXPECT_NEAR(full.recompute, full.forward - down, 1e-12) << "nothing reads the block's result";
  EXPECT_NEAR(full.exchange_recompute, full.exchange / 2, 1e-12);
  plan.recompute.every = 4;
  EXPECT_NEAR(block_work(four_blocks(), {2, 256}, plan, plain_machine(), own_system).recompute, full.forward - down / 4, 1e-12);
  EXPECT_EQ(block_work(four_blocks(), {2, 256}, plan, plain_machine(), megatron).recompute,
            block_work(four_blocks(), {2, 256}, plan, plain_machine(), megatron).forward);
  plan.tp = 16;  // more than a node has
  EXPECT_FALSE(tensor_group(plan, plain_machine()).inside);
}

TEST(StepTime, HeadsThatDoNotDivideAreTimedOnTheRankWithMost) {
  arch::ModelConfig model = four_blocks();
  model.heads = 6;
  model.kv_heads = 2;
  const auto of = [&](int tp, int cp) {
    layout::ParallelPlan plan;
    plan.tp = tp;
    plan.cp = cp;
    plan.context = layout::ContextMethod::ulysses;
    Machine machine = plain_machine();
    machine.inside_rate = 1e30;
    return block_work(model, {2, 256}, plan, machine, own_system);
  };
  const auto rest = [](double heads, double kv_heads, double rows, double ffn) {
    const double size = 64, linear = (2 * heads + 2 * kv_heads) * size + 2 * ffn;
    return 2 * rows * 512 * linear / 1e12;
  };
  const auto attention = [](std::int64_t heads) { return tiled_attention(2 * heads, 256, 256, 64, 256).forward / 1e12; };
  EXPECT_NEAR(of(4, 1).forward, rest(2, 1, 512, 512) + attention(2), 1e-12) << "two of six";
  EXPECT_NEAR(of(3, 1).forward, rest(2, 2, 512, 683) + attention(2), 1e-12) << "the second rank reads both key/value heads";
  EXPECT_NEAR(of(1, 4).forward, rest(6, 2, 128, 2048) + attention(2), 1e-12) << "two heads of all positions";
  EXPECT_NEAR(of(1, 3).forward, rest(6, 2, 2 * 86, 2048) + tiled_attention(2 * 6, 86, 256, 64, 256).forward / 1e12, 1e-12);
}

TEST(StepTime, CollectivesAreRings) {
  Machine machine = plain_machine();
  EXPECT_EQ(sum_seconds(1e9, {.ranks = 1}, machine), 0);
  EXPECT_NEAR(gather_seconds(1e9, {.ranks = 4, .inside = true}, machine), 0.0075, 1e-12);
  EXPECT_NEAR(sum_seconds(1e9, {.ranks = 4, .inside = false}, machine), 0.15, 1e-12);
  machine.link_share = 0.5;
  machine.between_latency = 1e-3;
  EXPECT_NEAR(send_seconds(1e9, false, machine), 0.201, 1e-12);
}

TEST(StepTime, APipelineWaitsWhileItFills) {
  Work work = plain_work();
  Candidate candidate;
  candidate.plan.microbatches = 8;
  const StepTime alone = step_time(work, candidate);
  EXPECT_EQ(alone.bubble, 0);
  candidate.plan.pp = 4;
  work.machine.inside_rate = 1e30;
  const StepTime piped = step_time(work, candidate);
  const BlockWork block = block_work(work.model, {1, 256}, candidate.plan, work.machine, work.system);
  EXPECT_NEAR(piped.bubble, 3 * (block.forward + block.input_backward + block.weight_backward), 1e-12);
  EXPECT_LT(piped.total(), alone.total());
  candidate.plan.schedule = "zb-h1";
  EXPECT_NEAR(step_time(work, candidate).bubble, piped.bubble / 3, 1e-12);
}

TEST(StepTime, StagesAddUpToTheWholeModel) {
  const Work work = plain_work();
  Candidate candidate;
  const layout::PassSeconds whole = stage_seconds(work, candidate).at(0);
  candidate.plan.pp = 4;
  double forward = 0, backward = 0;
  for (const layout::PassSeconds& stage : stage_seconds(work, candidate)) {
    forward += stage.forward;
    backward += stage.input_backward + stage.weight_backward;
    EXPECT_GT(stage.message, 0);
  }
  EXPECT_NEAR(forward, whole.forward, 1e-12);
  EXPECT_NEAR(backward, whole.input_backward + whole.weight_backward, 1e-12);
}

TEST(StepTime, SumsOfGradientsHideBehindBackward) {
  Work work = plain_work();
  work.machine.nodes = 4;
  Candidate candidate;
  candidate.plan.dp = 32;
  const StepTime time = step_time(work, candidate);
  const StepEnd open = step_end(work, candidate, 0, 0), hidden = step_end(work, candidate, 1e9, 1e9);
  EXPECT_LT(time.replicas, open.replicas);
  EXPECT_NEAR(hidden.replicas, open.replicas / 4, 1e-12) << "a block's gradients have nothing to hide behind";
  work.system.hides_reductions = false;
  EXPECT_NEAR(step_time(work, candidate).replicas, open.replicas, 1e-12);
}

TEST(StepTime, GradientsOfEveryMicrobatchGoBehindItsBackwardPass) {
  Work work = plain_work();
  work.machine.nodes = 4;
  work.machine.between_rate = 1e9;
  Candidate candidate;
  candidate.plan.dp = 32;
  candidate.plan.microbatches = 4;
  layout::set_zero_level(candidate.plan, 2);
  const StepTime once = step_time(work, candidate);
  candidate.plan.reduce = layout::ReduceEvery::microbatch;
  const StepTime each = step_time(work, candidate);
  EXPECT_EQ(once.gather, 0);
  EXPECT_GT(each.gather, 2 * once.replicas) << "four sums in place of one, each behind a backward pass";
  EXPECT_LT(each.replicas, once.replicas) << "new weights alone";
}

TEST(StepTime, WhatIsHiddenTakesUnitsAndMemoryOfWhatComputes) {
  Work work = plain_work();
  Candidate candidate;
  candidate.samples = 64;
  candidate.plan.dp = 8;
  layout::set_zero_level(candidate.plan, 3);
  EXPECT_EQ(step_time(work, candidate).gather, 0);
  work.system.contention = 0.5;
  const double gathered = 2 * gather_seconds(2 * work.parameters, {.ranks = 8}, work.machine);
  EXPECT_NEAR(step_time(work, candidate).gather, gathered / 2, 1e-12);
  work.system.hop_seconds = 1e-3;
  EXPECT_NEAR(step_time(work, candidate).gather, gathered / 2 + 2 * 7e-3 * 5, 1e-12) << "four blocks, and what is beside them";
}

TEST(StepTime, RingsLeaveANodeByAllTheirRanksLinks) {
  Machine machine = plain_machine();
  machine.nodes = 4;
  layout::ParallelPlan plan;
  plan.dp = 32;
  const auto seconds = [&] { return gather_seconds(32e9, replica_group(plan, machine), machine); };
  EXPECT_NEAR(seconds(), 3.1, 1e-9);
  machine.joins_links = true;
  EXPECT_NEAR(seconds(), 3.1 / 8, 1e-9);
  machine.inside_rate = 20e9;
  EXPECT_NEAR(seconds(), 3.1 / 2, 1e-9) << "or as fast as inside the node";
  plan.dp = 4;
  plan.tp = 8;
  EXPECT_NEAR(seconds(), 2.4, 1e-9) << "one rank of the group on each node";
}

TEST(StepTime, WeightsThatAreGatheredWaitWhereComputationIsShort) {
  Work work = plain_work();
  work.machine.nodes = 4;
  work.machine.between_rate = 1e9;
  Candidate candidate;
  candidate.plan.dp = 32;
  layout::set_zero_level(candidate.plan, 3);
  const double few = step_time(work, candidate).gather;
  EXPECT_GT(few, 0);
  candidate.samples = 64;
  EXPECT_LT(step_time(work, candidate).gather, few);
  candidate.plan.parameters.tier = layout::Tier::host;
  candidate.samples = 1;
  EXPECT_GT(step_time(work, candidate).gather, few);
}

TEST(StepTime, BlocksThatForwardHasJustLeftAreNotRunAgain) {
  const Work work = plain_work();
  Candidate candidate;
  candidate.plan.recompute = {layout::Recompute::Kind::full, 1};
  const double one = step_time(work, candidate).recompute;
  candidate.plan.recompute.every = 2;
  EXPECT_LT(step_time(work, candidate).recompute, one);
  candidate.plan.recompute.every = 4;
  EXPECT_EQ(step_time(work, candidate).recompute, 0);
}

TEST(StepTime, SharingOutInsideNodesGathersThereAndSumsForAll) {
  Work work = plain_work();
  work.machine.nodes = 4;
  work.machine.between_rate = 1e9;
  Candidate candidate;
  candidate.plan.dp = 32;
  candidate.plan.ranks_per_host = 8;
  layout::set_zero_level(candidate.plan, 3);
  const StepTime all = step_time(work, candidate);
  const StepEnd scattered = step_end(work, candidate, 0, 0);
  layout::set_zero_level(candidate.plan, 3, layout::CutOver::host);
  EXPECT_LT(step_time(work, candidate).gather, all.gather);
  EXPECT_NEAR(step_end(work, candidate, 0, 0).replicas, 2 * scattered.replicas, 1e-12);
}

TEST(StepTime, ActivationsElsewhereHideBehindWhatComputes) {
  Work work = plain_work();
  Candidate candidate;
  candidate.plan.activations = layout::Tier::host;
  work.machine.host_rate = 1e30;
  EXPECT_EQ(step_time(work, candidate).activations, 0);
  work.machine.host_rate = 1e6;
  const double slow = step_time(work, candidate).activations;
  EXPECT_GT(slow, 0);
  candidate.plan.recompute = {layout::Recompute::Kind::full, 1};
  EXPECT_LT(step_time(work, candidate).activations, slow) << "inputs alone go there";
}

TEST(StepTime, RanksThatDivideASequenceWaitByTheirMethod) {
  using layout::ContextMethod;
  layout::ParallelPlan plan;
  plan.cp = 4;
  plan.ranks_per_host = 8;
  const auto work = [&](ContextMethod method) {
    plan.context = method;
    return block_work(four_blocks(), {2, 256}, plan, plain_machine(), own_system);
  };
  const double keys = 2 * 0.75 * 512 * 512 / 100e9;  // keys and values of all rows, an element each
  EXPECT_NEAR(work(ContextMethod::allgather).exchange, 2 * keys, 1e-12);
  EXPECT_NEAR(work(ContextMethod::allgather).exchange_backward, 4 * keys, 1e-12);
  EXPECT_NEAR(work(ContextMethod::ulysses).exchange, 2 * 2 * keys / 4, 1e-12);
  const BlockWork ring = work(ContextMethod::ring);
  EXPECT_LT(ring.exchange, 2 * keys) << "hops hide behind products";
  EXPECT_GT(ring.exchange_backward, 0) << "the last hop of gradients is bare";
}

}  // namespace
}  // namespace lockstep::planner
