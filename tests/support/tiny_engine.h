#pragma once

// A tiny model in an engine of one rank, and batches made from numbers: what training tests share.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "data/batch.h"
#include "model/decoder.h"
#include "reference/families.h"
#include "support/machine.h"
#include "support/tiny_model.h"
#include "tensor/bfloat16.h"
#include "train/engine.h"

namespace lockstep::support {

inline train::EngineConfig tiny_config(const arch::ModelConfig& model = tiny_model()) {
  train::EngineConfig config;
  config.model = model;
  config.samples = 3;
  config.positions = 7;
  return config;
}

/// The two ways to train in bf16: with fp32 master weights, and without.
inline constexpr parallel::WeightStorage bf16_with_masters{.type = DType::bf16, .master = true};
inline constexpr parallel::WeightStorage bf16_alone{.type = DType::bf16, .master = false};

/// The values of an f32 or bf16 tensor.
inline std::vector<float> values_of(const Tensor& tensor) {
  if (tensor.dtype == DType::f32) {
    const std::span<float> values = elements<float>(tensor);
    return {values.begin(), values.end()};
  }
  ensure(tensor.dtype == DType::bf16 && tensor.dense(), "values of dense f32 or bf16");
  const BFloat16* const narrow = reinterpret_cast<const BFloat16*>(tensor.data);
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_float(narrow[i]);
  return values;
}

/// Rounds to bf16 where the tensor is of that.
inline void set_values(const Tensor& tensor, const std::vector<float>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (tensor.dtype == DType::f32) reinterpret_cast<float*>(tensor.data)[i] = values[i];
    if (tensor.dtype == DType::bf16) reinterpret_cast<BFloat16*>(tensor.data)[i] = to_bfloat16(values[i]);
  }
}

/// ||a - b|| / ||b|| of two f32 or bf16 tensors.
inline double relative(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = values_of(a), y = values_of(b);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    difference += std::pow(static_cast<double>(x[i]) - y[i], 2);
    size += std::pow(static_cast<double>(y[i]), 2);
  }
  return std::sqrt(difference) / std::max(std::sqrt(size), 1e-7);
}

/// The groups of data-parallel ranks.
struct DataParallel {
  explicit DataParallel(comm::Communicator& world)
      : groups(world, layout::Mesh({.dp = world.size(), .ranks_per_host = world.size()})) {}
  parallel::Groups groups;
};

inline train::EngineConfig data_parallel(train::EngineConfig config, const comm::Communicator& world) {
  config.plan.dp = config.plan.ranks_per_host = world.size();
  return config;
}

/// An engine of one of the data-parallel ranks of `world`.
class RankEngine : public train::Engine {
 public:
  template <class... Factory>
  RankEngine(const train::EngineConfig& config, Runtime& runtime, ops::Ops& ops, comm::Communicator& world,
             const Factory&... make_updater)
      : Engine(data_parallel(config, world), runtime, ops, world, make_updater...) {}
};

/// One parameter of this rank with everything that training keeps of it, in the parameter's shape.
struct ParameterState {
  std::string name;
  Tensor weight;  ///< what is updated
  Tensor gradient;
  Tensor exp_avg, exp_avg_sq;    ///< the first two slots; empty where this rank has none
  std::vector<float> copy = {};  ///< the memory of `weight`, where an engine has it whole during a visit alone
};

/// Calls use(ParameterState), which may change it, in the order of the model's table, of an engine whose units are visited whole.
template <class Use>
void for_each_parameter(train::Engine& engine, const Use& use) {
  parallel::TrainingState& state = engine.state();
  state.for_each({.gradients = true, .slots = true, .changes = true}, [&](const parallel::StateRange& range) {
    for (const layout::PlacedParameter& placed : state.units()[static_cast<std::size_t>(range.unit.value)].parameters) {
      const auto part = [&](const Tensor& flat) {
        return flat.flat(placed.offset, placed.shape().elements()).reshape(placed.shape());
      };
      const auto slot = [&](std::size_t s) { return s < range.slots.size() ? part(range.slots[s]) : Tensor{}; };
      use(ParameterState{placed.info.name, part(range.master), part(range.gradient), slot(0), slot(1)});
    }
  });
}

/// The states of all parameters of this rank.
inline std::vector<ParameterState> parameters_of(train::Engine& engine) {
  std::vector<ParameterState> all;
  const bool stays = engine.state().stays({});
  for_each_parameter(engine, [&](const ParameterState& parameter) {
    ParameterState& kept = all.emplace_back(parameter);
    if (stays) return;
    const std::span<float> weights = elements<float>(parameter.weight);
    kept.copy.assign(weights.begin(), weights.end());
    kept.weight = view(std::span(kept.copy), parameter.weight.shape);
  });
  return all;
}

/// An engine with its memory taken and its weights set.
inline std::unique_ptr<RankEngine> make_engine(const train::EngineConfig& config, Machine& machine) {
  auto engine = std::make_unique<RankEngine>(config, *machine.runtime, *machine.ops, *machine.world);
  engine->commit();
  engine->initialise();
  return engine;
}

/// A decoder for one text of at most seven tokens, with its memory taken.
class TinyReader {
 public:
  TinyReader(const model::Context& context, Machine& machine) : decoder(context, {.texts = 1}, 7) {
    workspace_.declare(logits, "logits", Shape{7, 65}, DType::f32);
    decoder.declare(workspace_, cache_);
    Ledger ledger;
    workspace_.commit(*machine.runtime, ledger);
    cache_.commit(*machine.runtime, ledger);
  }
  /// Reads `count` of `tokens` from `first` on behind what was read, sets their rows of `logits` and returns what they are of.
  Tensor read(const Tensor& tokens, std::int64_t first, std::int64_t count) {
    const ops::CachedText next{.rows = count, .position = first};
    const Tensor x = decoder.read(tokens.flat(first, count), std::span(&next, 1));
    decoder.logits(logits.slice_rows(first, count), x);
    return x;
  }

 private:
  Arena workspace_{"decoder", MemoryKind::workspace}, cache_{"cache", MemoryKind::activations};

 public:
  model::Decoder decoder;
  Tensor logits;  ///< [7, 65]
};

/// `to` gets the weights of `from`, an engine of the same configuration.
inline void start_alike(train::Engine& to, train::Engine& from) {
  const std::vector<ParameterState> sources = parameters_of(from);
  auto source = sources.begin();
  for_each_parameter(to, [&](const ParameterState& target) {
    std::ranges::copy(elements<std::byte>((source++)->weight), elements<std::byte>(target.weight).begin());
  });
  to.weights_changed();
}

/// Random micro-batches that own their memory; sample numbers go on from one to the next.
class Batches {
 public:
  Batches(std::int64_t count, std::int64_t samples, std::int64_t positions, std::int64_t vocabulary, std::uint64_t seed = 1)
      : tokens_(static_cast<std::size_t>(count * samples * positions)), targets_(tokens_.size()) {
    const CounterRng rng(seed, "test.batch");
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      tokens_[i] = static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(vocabulary), 2 * i));
      targets_[i] = static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(vocabulary), 2 * i + 1));
    }
    const std::int64_t rows = samples * positions;
    for (std::int64_t m = 0; m < count; ++m) {
      data::Batch batch;
      batch.tokens = view(std::span(tokens_), Shape{count * rows}).flat(m * rows, rows);
      batch.targets = view(std::span(targets_), Shape{count * rows}).flat(m * rows, rows);
      batch.samples = samples;
      batch.positions = positions;
      batch.target_count = rows;
      batch.first_sample = static_cast<std::uint64_t>(m * samples);
      batches_.push_back(batch);
    }
  }
  std::span<const data::Batch> all() const { return batches_; }
  std::int64_t targets() const { return static_cast<std::int64_t>(targets_.size()); }
  std::vector<std::int32_t>& target_values() { return targets_; }

 private:
  std::vector<std::int32_t> tokens_, targets_;
  std::vector<data::Batch> batches_;
};

/// Expects that a step by fast kernels and one by the reference end within these tolerances, relative to the reference.
inline void expect_fast_as_reference(const train::EngineConfig& config, double loss, double norm, double gradient) {
  Machine fast(2), slow(1);
  slow.ops = ops::make_reference_ops();
  const auto a = make_engine(config, fast), b = make_engine(config, slow);
  start_alike(*a, *b);
  const Batches batches(1, config.samples, config.positions, config.model.vocabulary);
  const train::StepResult x = a->step(batches.all(), batches.targets(), 0, 1e-3);
  const train::StepResult y = b->step(batches.all(), batches.targets(), 0, 1e-3);
  EXPECT_NEAR(x.loss, y.loss, loss * y.loss);
  EXPECT_NEAR(x.gradient_norm, y.gradient_norm, norm * y.gradient_norm);
  const std::vector<ParameterState> made = parameters_of(*a), expected = parameters_of(*b);
  for (std::size_t i = 0; i < made.size(); ++i)
    EXPECT_LT(relative(made[i].gradient, expected[i].gradient), gradient) << made[i].name;
}

}  // namespace lockstep::support
