#pragma once

// A tiny model in an engine of one rank, and batches made from numbers: what training tests share.

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "comm/communicator.h"
#include "data/batch.h"
#include "device/runtime.h"
#include "model/decoder.h"
#include "ops/ops.h"
#include "tensor/bfloat16.h"
#include "train/engine.h"

namespace lockstep::support {

inline arch::ModelConfig tiny_model() {
  arch::ModelConfig config;
  config.layers = 2;
  config.heads = config.kv_heads = 3;
  config.width = 30;
  config.head_size = 10;
  config.ffn_width = 120;
  config.block_size = 7;
  config.vocabulary = 65;
  config.bias = config.qkv_bias = true;
  return config;
}

/// The parts of Llama 3.1: fewer key/value heads than heads, heads wider than the model, stretched rotary positions.
inline arch::ModelConfig tiny_llama() {
  arch::ModelConfig config = tiny_model();
  config.bias = config.qkv_bias = config.tied = false;
  config.heads = 6;
  config.kv_heads = 2;
  config.ffn_width = 40;
  config.norm = arch::NormKind::rmsnorm;
  config.position = arch::PositionKind::rope;
  config.rope = {.theta = 100, .scaling = arch::RopeScaling::llama3, .original_block_size = 32};
  config.activation = ops::Activation::silu;
  config.gated = true;
  return config;
}

/// The parts of Qwen2: biases of q, k, v alone, a tied head.
inline arch::ModelConfig tiny_qwen2() {
  arch::ModelConfig config = tiny_llama();
  config.heads = 3;
  config.kv_heads = 1;
  config.norm_eps = 1e-6F;
  config.rope = {.theta = 1e6};
  config.qkv_bias = config.tied = true;
  return config;
}

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

/// Runtime, stream, kernels and world of one rank; `reference` takes the plain loops.
struct Machine {
  explicit Machine(int threads = 2, bool reference = false, ops::Isa isa = ops::Isa::automatic)
      : runtime(open_runtime({}, {.threads = threads})),
        stream(runtime->make_stream()),
        ops(reference ? ops::make_reference_ops() : ops::make_ops(*runtime, *stream, {.isa = isa})),
        world(comm::make_self()) {}
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<ops::Ops> ops;
  std::unique_ptr<comm::Communicator> world;
};

/// An engine with its memory taken and its weights set.
inline std::unique_ptr<train::Engine> make_engine(const train::EngineConfig& config, Machine& machine) {
  auto engine = std::make_unique<train::Engine>(config, *machine.runtime, *machine.ops, *machine.world);
  engine->commit();
  engine->initialise();
  return engine;
}

/// A decoder for one text of at most seven tokens, with its memory taken.
class TinyReader {
 public:
  TinyReader(const model::Context& context, Machine& machine) : decoder(context, 1, 7) {
    workspace_.declare(logits, "logits", Shape{7, 65}, DType::f32);
    decoder.declare(workspace_, cache_);
    Ledger ledger;
    workspace_.commit(machine.runtime->memory(), ledger);
    cache_.commit(machine.runtime->memory(), ledger);
  }
  /// Reads `count` of `tokens` from `first` on behind what was read, sets their rows of `logits` and returns what they are of.
  Tensor read(const Tensor& tokens, std::int64_t first, std::int64_t count) {
    const Tensor x = decoder.read(tokens.flat(first, count), 1, count);
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
  const auto targets = to.state(), sources = from.state();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    std::ranges::copy(elements<std::byte>(sources[i].weight), elements<std::byte>(targets[i].weight).begin());
  }
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

}  // namespace lockstep::support
