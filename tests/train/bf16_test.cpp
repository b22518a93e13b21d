// Training and reading in bf16: what must be equal is equal bit for bit, as in fp32, and what differs from fp32 stays near it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/tiny_engine.h"
#include "train/engine.h"

namespace lockstep::train {
namespace {

using support::Batches;
using support::Machine;
using support::make_engine;
using support::values_of;

constexpr parallel::WeightStorage storages[] = {support::bf16_with_masters, support::bf16_alone};

EngineConfig bf16_config(const parallel::WeightStorage& weights, const arch::ModelConfig& model = support::tiny_model()) {
  EngineConfig config = support::tiny_config(model);
  config.weights = weights;
  return config;
}

std::vector<arch::ModelConfig> models() {
  arch::ModelConfig untied = support::tiny_model();
  untied.tied = untied.bias = false;
  arch::ModelConfig dropping = support::tiny_llama();
  dropping.dropout = 0.2F;
  return {support::tiny_model(), untied,  support::tiny_llama(), support::tiny_qwen2(), support::tiny_qwen3(),
          support::tiny_gemma(), dropping};
}

parallel::ParameterStore::Shard shard(const Engine& engine, std::size_t unit) {
  return engine.context().parameters.shard(UnitIndex{static_cast<int>(unit)});
}

void append(std::vector<std::byte>& all, const Tensor& tensor) {
  const std::span<std::byte> bytes = elements<std::byte>(tensor);
  all.insert(all.end(), bytes.begin(), bytes.end());
}

// What a step changes beside gradients, as bytes: masters, moments, and the weights that the model reads.
std::vector<std::byte> changed_by_steps(Engine& engine) {
  std::vector<std::byte> all;
  for (const support::ParameterState& p : support::parameters_of(engine)) {
    for (const Tensor& tensor : {p.weight, p.exp_avg, p.exp_avg_sq}) append(all, tensor);
  }
  for (std::size_t u = 0; u < engine.context().parameters.units().size(); ++u) append(all, shard(engine, u).published);
  return all;
}

// Everything that a run keeps, as bytes.
std::vector<std::byte> kept(Engine& engine) {
  std::vector<std::byte> all = changed_by_steps(engine);
  for (const support::ParameterState& p : support::parameters_of(engine)) append(all, p.gradient);
  return all;
}

void expect_published(Engine& engine) {
  engine.state().for_each({}, [&](const parallel::StateRange& range) {
    EXPECT_EQ(range.master.dtype, DType::f32);
    ASSERT_EQ(range.published.dtype, DType::bf16);
    std::vector<float> rounded = values_of(range.master);
    for (float& value : rounded) value = to_float(to_halves(value).high);
    EXPECT_EQ(values_of(range.published), rounded);
  });
}

TEST(Bf16, WhatTheModelReadsIsTheMasterRounded) {
  Machine machine;
  const auto engine = make_engine(bf16_config(support::bf16_with_masters), machine);
  expect_published(*engine);
  const Batches batches(1, 3, 7, 65);
  for (int step = 0; step < 3; ++step) engine->step(batches.all(), batches.targets(), step, 1e-2);
  expect_published(*engine);
  constexpr float tie = 1.00390625F;  // 1 + 2^-8
  support::for_each_parameter(*engine,
                              [&](const support::ParameterState& p) { std::ranges::fill(elements<float>(p.weight), tie); });
  engine->weights_changed();
  expect_published(*engine);
  EXPECT_EQ(values_of(shard(*engine, 0).published).front(), 1.0078125F);  // away from zero
  EXPECT_EQ(values_of(support::parameters_of(*engine)[0].weight).front(), tie);
}

TEST(Bf16, StartsFromTheWeightsOfFp32) {
  Machine machine;
  const auto wide = make_engine(support::tiny_config(), machine);
  const auto masters = make_engine(bf16_config(support::bf16_with_masters), machine);
  const auto alone = make_engine(bf16_config(support::bf16_alone), machine);
  for (std::size_t i = 0; i < support::parameters_of(*wide).size(); ++i) {
    std::vector<float> values = values_of(support::parameters_of(*wide)[i].weight);
    EXPECT_EQ(values_of(support::parameters_of(*masters)[i].weight), values);
    for (float& value : values) value = to_float(to_halves(value).high);
    EXPECT_EQ(values_of(support::parameters_of(*alone)[i].weight), values);
  }
}

TEST(Bf16, WithoutMastersNothingOfTheOptimizerIsFp32) {
  Machine machine;
  const auto engine = make_engine(bf16_config(support::bf16_alone), machine);
  for (const support::ParameterState& p : support::parameters_of(*engine)) {
    EXPECT_EQ(p.gradient.dtype, DType::f32);
    for (const Tensor& tensor : {p.weight, p.exp_avg, p.exp_avg_sq}) EXPECT_EQ(tensor.dtype, DType::bf16);
  }
  EXPECT_EQ(shard(*engine, 1).master.data, shard(*engine, 1).published.data);
}

TEST(Bf16, FastKernelsTrainAsTheReferenceDoes) {
  for (const parallel::WeightStorage& weights : storages) {
    for (const arch::ModelConfig& model : models())
      support::expect_fast_as_reference(bf16_config(weights, model), 1e-3, 1e-2, 2e-2);
  }
}

TEST(Bf16, LearnsWhatFp32Learns) {
  for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama()}) {
    Machine machine;
    const Batches batches(1, 3, 7, 65);
    const auto loss_after = [&](const parallel::WeightStorage& weights) {
      const auto engine = make_engine(bf16_config(weights, model), machine);
      double loss = 0;
      for (int step = 0; step < 30; ++step) loss = engine->step(batches.all(), batches.targets(), step, 1e-2).loss;
      return loss;
    };
    const double wide = loss_after({});
    EXPECT_LT(wide, 1);
    EXPECT_NEAR(loss_after(support::bf16_with_masters), wide, 0.1);
    EXPECT_LT(loss_after(support::bf16_alone), 1.5);  // small changes of large weights are lost
  }
}

TEST(Bf16, EveryThreadCountGivesTheSameBits) {
  for (const parallel::WeightStorage& weights : storages) {
    for (arch::ModelConfig model : {support::tiny_model(), support::tiny_llama(), support::tiny_qwen2()}) {
      model.dropout = 0.1F;
      std::vector<std::vector<std::byte>> left;
      for (const int threads : {1, 2, 3}) {
        EngineConfig config = bf16_config(weights, model);
        config.plan.microbatches = 2;
        Machine machine(threads);
        const auto engine = make_engine(config, machine);
        const Batches batches(2, 3, 7, 65);
        for (int step = 0; step < 3; ++step) engine->step(batches.all(), batches.targets(), step, 1e-2);
        left.push_back(kept(*engine));
      }
      EXPECT_TRUE(left[0] == left[1]);
      EXPECT_TRUE(left[0] == left[2]);
    }
  }
}

TEST(Bf16, EveryInstructionSetWithFmaGivesTheSameBits) {
  std::vector<std::vector<std::byte>> left;
  for (const ops::Isa isa : ops::available_isas()) {
    if (isa == ops::Isa::baseline) continue;
    Machine machine(2, isa);
    const auto engine = make_engine(bf16_config(support::bf16_with_masters, support::tiny_qwen2()), machine);
    const Batches batches(1, 3, 7, 65);
    for (int step = 0; step < 3; ++step) engine->step(batches.all(), batches.targets(), step, 1e-2);
    left.push_back(kept(*engine));
  }
  if (left.size() < 2) GTEST_SKIP() << "this processor has one instruction set with fused multiply-add";
  for (const std::vector<std::byte>& other : left) EXPECT_TRUE(other == left.front());
}

TEST(Bf16, AGradientThatIsNotFiniteChangesNothing) {
  for (const parallel::WeightStorage& weights : storages) {
    Machine machine;
    const auto engine = make_engine(bf16_config(weights), machine);
    const Batches batches(1, 3, 7, 65);
    engine->step(batches.all(), batches.targets(), 0, 1e-3);
    support::for_each_parameter(*engine, [](const support::ParameterState& p) {
      if (p.name != "transformer.ln_f.weight") return;
      if (p.weight.dtype == DType::f32) {
        elements<float>(p.weight)[0] = std::numeric_limits<float>::quiet_NaN();
      } else {
        *reinterpret_cast<BFloat16*>(p.weight.data) = to_bfloat16(std::numeric_limits<float>::quiet_NaN());
      }
    });
    engine->weights_changed();
    const std::vector<std::byte> before = changed_by_steps(*engine);
    EXPECT_FALSE(engine->step(batches.all(), batches.targets(), 1, 1e-3).finite);
    EXPECT_TRUE(changed_by_steps(*engine) == before);
  }
}

std::int64_t bytes_of(const Ledger& ledger, std::string_view owner) {
  std::int64_t bytes = 0;
  for (const LedgerEntry& entry : ledger.entries()) bytes += entry.owner == owner ? entry.bytes : 0;
  return bytes;
}

TEST(Bf16, TheLedgerNamesWhatIsKept) {
  Machine machine;
  const auto ledger_of = [&](const parallel::WeightStorage& weights) {
    support::RankEngine engine(bf16_config(weights), *machine.runtime, *machine.ops, *machine.world);
    const Ledger ledger = engine.ledger();
    engine.commit();
    EXPECT_EQ(engine.ledger().total(), ledger.total());
    return ledger;
  };
  const Ledger wide = ledger_of({}), masters = ledger_of(support::bf16_with_masters), alone = ledger_of(support::bf16_alone);
  const std::int64_t weights = bytes_of(wide, "weights fp32");
  EXPECT_GT(weights, 0);
  EXPECT_EQ(bytes_of(wide, "master weights, lower halves"), 0);
  EXPECT_EQ(wide.table().find("master"), std::string::npos);
  EXPECT_EQ(bytes_of(masters, "weights bf16"), weights / 2);
  EXPECT_EQ(bytes_of(masters, "master weights, lower halves"), weights / 2);
  const std::int64_t in_one_range = bytes_of(masters, "optimizer slots") - bytes_of(wide, "optimizer slots");
  EXPECT_GT(in_one_range, 0);
  EXPECT_LE(in_one_range, parallel::HalvedState::range_elements * 4);
  EXPECT_EQ(bytes_of(alone, "weights bf16"), weights / 2);
  EXPECT_EQ(bytes_of(alone, "master weights, lower halves"), 0);
  EXPECT_LT(bytes_of(alone, "optimizer slots"), bytes_of(wide, "optimizer slots") * 51 / 100);
  EXPECT_EQ(masters.total(MemoryKind::gradients), wide.total(MemoryKind::gradients));
  EXPECT_LT(masters.total(MemoryKind::activations), wide.total(MemoryKind::activations) * 7 / 10);
}

// Logits of all positions, read in pieces, and the loss of the last piece's targets.
TEST(Bf16, ReadingInPiecesGivesTheBitsOfTheTrainingPass) {
  for (const arch::ModelConfig& model : models()) {
    Machine machine;
    const auto engine = make_engine(bf16_config(support::bf16_with_masters, model), machine);
    const Batches batches(1, 1, 7, 65);
    const data::Batch& batch = batches.all()[0];
    const auto read = [&](std::vector<std::int64_t> pieces, double& loss) {
      support::TinyReader reader(engine->context(), machine);
      EXPECT_EQ(reader.decoder.cache().keys(0).dtype, DType::bf16);
      std::int64_t first = 0;
      for (const std::int64_t count : pieces) {
        const Tensor x = reader.read(batch.tokens, first, count);
        EXPECT_EQ(x.dtype, DType::bf16);
        if (pieces.size() == 1) reader.decoder.loss(x, {batch.targets, view(std::span(&loss, 1), Shape{1})});
        first += count;
      }
      return values_of(reader.logits);
    };
    double loss = 0;
    const std::vector<float> whole = read({7}, loss);
    EXPECT_EQ(whole, read({1, 1, 1, 1, 1, 1, 1}, loss));
    EXPECT_EQ(whole, read({3, 4}, loss));
    EXPECT_EQ(engine->evaluate(batch), loss);  // the training pass
  }
}

}  // namespace
}  // namespace lockstep::train
