#pragma once

// What tiny models learn from one step, put together from what ranks have of it, and compared with one rank's.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "support/schedules.h"
#include "support/tiny_model.h"
#include "support/tiny_stages.h"

namespace lockstep::support {

struct Learnt {
  double loss = 0;       ///< of training
  double evaluated = 0;  ///< loss of the first micro-batch, without dropout
  std::map<std::string, std::vector<double>> gradients;
};

/// A step that a rank takes part in.
struct Lesson {
  parallel::TokenGrid tokens;     ///< of a micro-batch, over all ranks
  ops::Positions positions = {};  ///< of every sample that this rank has
  int microbatches = 2;
  bool late_weights = false;

  parallel::TokenGrid own() const { return {tokens.samples, positions.count()}; }
  std::vector<layout::Action> actions() const {
    return late_weights ? support::late_weights(microbatches, 1) : in_turn(microbatches);
  }
};
inline Lesson whole_lesson(const parallel::TokenGrid& tokens, bool late_weights = false) {
  return {.tokens = tokens, .positions = {0, tokens.positions}, .late_weights = late_weights};
}

/// Biases and dropout everywhere; heads that do not divide; a gate; key/value heads that ranks share; tied and untied tables.
inline std::vector<arch::ModelConfig> dropping_models() {
  std::vector<arch::ModelConfig> all{tiny_model(), tiny_llama(), tiny_qwen2(), tiny_qwen3()};
  for (arch::ModelConfig& config : all) config.dropout = 0.2F;
  return all;
}
inline std::vector<layout::Chunk> one_chunk(const arch::ModelConfig& config) {
  return {{.blocks = {0, config.layers}, .embedding = true, .head = true}};
}

/// Ids of a micro-batch's tokens (kind 1), or of its targets (kind 2), of which some are ignored; those that the rank has.
inline std::vector<std::int32_t> ids_of(const Lesson& lesson, int microbatch, std::uint64_t kind) {
  std::vector<std::int32_t> ids;
  const CounterRng rng(kind, "test.tokens");
  for (std::int64_t row = 0; row < lesson.own().rows(); ++row) {
    const std::int64_t sample = row / lesson.positions.count(), position = lesson.positions.at(row % lesson.positions.count());
    const auto place =
        static_cast<std::uint64_t>((microbatch * lesson.tokens.samples + sample) * lesson.tokens.positions + position);
    ids.push_back(kind == 2 && place % 5 == 3 ? -1 : static_cast<std::int32_t>(rng.below(65, place)));
  }
  return ids;
}

/// Forward and backward of all micro-batches, and an evaluation.
inline void learn(TinyStages& model, const Lesson& lesson, Learnt& learnt) {
  float scale = 1.0F / static_cast<float>(lesson.microbatches * lesson.tokens.rows());
  model::Stage& stage = *model.stages.front();
  model.gradients.begin(lesson.microbatches);
  const std::int64_t rows = lesson.own().rows();
  model::Pass pass{.samples = lesson.tokens.samples, .positions = lesson.positions, .step = 3};
  const auto go_forward = [&](int m, const Tensor& tokens) {
    const Tensor x = model.memory.output(0, Microbatch{m}).tensor.slice_rows(0, stage.stream_rows(pass));
    stage.forward(pass, Microbatch{m}, tokens, x);
    return x;
  };
  for (int m = 0; m < lesson.microbatches; ++m) {
    std::vector<std::int32_t> ids = ids_of(lesson, m, 1), next = ids_of(lesson, m, 2);
    const Tensor tokens = view(std::span(ids), Shape{rows}), targets = view(std::span(next), Shape{rows});
    if (m == 0) stage.evaluate(pass, go_forward(m, tokens), {targets, view(std::span(&learnt.evaluated, 1), Shape{1})});
    pass.training = true;
    pass.first_sample = m * lesson.tokens.samples;
    const Tensor x = go_forward(m, tokens);
    const Tensor d = model.memory.gradient(0, Microbatch{m}).tensor.slice_rows(0, x.rows());
    stage.loss(pass, Microbatch{m}, x,
               {targets, view(std::span(&learnt.loss, 1), Shape{1}), view(std::span(&scale, 1), Shape{1})}, d);
    lesson.late_weights ? stage.backward_input(pass, Microbatch{m}, tokens, d) : stage.backward(pass, Microbatch{m}, tokens, d);
    if (lesson.late_weights && m > 0) stage.backward_weight(Microbatch{m - 1});
  }
  if (lesson.late_weights) stage.backward_weight(Microbatch{lesson.microbatches - 1});
}

/// Adds what `rank` has of the whole model's gradients. A parameter that no rank cuts has a gradient on every rank. Where
/// is_part(role), this is a part of a sum; otherwise it is equal on all ranks, and rank 0's counts.
template <class IsPart>
void add(Learnt& learnt, TinyStages& model, int rank, const IsPart& is_part) {
  using arch::Role;
  const layout::ShardedDims& dims = model.context.dims;
  for (std::size_t u = 0; u < model.parameters.units().size(); ++u) {
    const Tensor flat = model.gradients.shard(UnitIndex{static_cast<int>(u)}).gradient;
    for (const layout::PlacedParameter& placed : model.parameters.units()[u].parameters) {
      const auto role = static_cast<Role>(placed.info.role);
      if (role == Role::token_table && !model.context.config.tied) continue;  // its rows, below
      const bool cut = placed.shape() != placed.info.shape;
      if (rank > 0 && !is_part(role) && !cut) continue;
      std::vector<double>& whole = learnt.gradients[placed.info.name];
      whole.resize(static_cast<std::size_t>(placed.info.shape.elements()));
      const std::span<float> mine = elements<float>(flat.flat(placed.offset, placed.shape().elements()));
      for (const layout::Rectangle& part : placed.shard.rectangles({0, placed.shape().elements()})) {
        for (std::int64_t i = 0; i < part.rows * part.columns; ++i) {
          whole[static_cast<std::size_t>(part.global + i / part.columns * part.stride + i % part.columns)] +=
              static_cast<double>(mine[static_cast<std::size_t>(part.local + i)]);
        }
      }
    }
  }
  if (rank > 0 && !is_part(Role::token_table) && dims.vocabulary_parts == 1) return;
  std::vector<double>& rows = learnt.gradients["embedded rows"];
  rows.resize(static_cast<std::size_t>(model.context.config.vocabulary * dims.width));
  const std::span<float> mine = elements<float>(model.gradients.rows());
  for (std::size_t i = 0; i < mine.size(); ++i) rows[static_cast<std::size_t>(dims.first_token * dims.width) + i] += mine[i];
}

/// The step on one rank.
inline Learnt learn_alone(const arch::ModelConfig& config, const Lesson& lesson, const TinyLayout& layout = {}) {
  Machine machine(1);
  const std::vector<layout::Action> actions = lesson.actions();
  TinyStages model(config, lesson.own(), one_chunk(config), actions, lesson.microbatches, machine, layout);
  Learnt learnt;
  learn(model, lesson, learnt);
  add(learnt, model, 0, [](arch::Role) { return false; });
  return learnt;
}

inline double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

inline void expect_near(const Learnt& a, const Learnt& b, double tolerance) {
  EXPECT_NEAR(a.loss, b.loss, tolerance * b.loss);
  EXPECT_NEAR(a.evaluated, b.evaluated, tolerance * b.evaluated);
  double all = 0;
  for (const auto& [name, gradient] : b.gradients) all = std::hypot(all, norm_of(gradient));
  for (const auto& [name, gradient] : b.gradients) {
    std::vector<double> difference = a.gradients.at(name);
    for (std::size_t i = 0; i < gradient.size(); ++i) difference[i] -= gradient[i];
    EXPECT_LE(norm_of(difference), tolerance * std::max(norm_of(gradient), 1e-6 * all)) << name;
  }
}

inline void expect_equal(const Learnt& a, const Learnt& b) {
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.evaluated, b.evaluated);
  for (const auto& [name, gradient] : b.gradients) EXPECT_EQ(a.gradients.at(name), gradient) << name;
}

}  // namespace lockstep::support
