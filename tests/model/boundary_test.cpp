// Two ranks divide the blocks' matrices, and the rows of the residual stream: each within 1e-5 of one rank.

#include "parallel/boundary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "comm/thread/thread_world.h"
#include "support/schedules.h"
#include "support/tiny_model.h"
#include "support/tiny_stages.h"

namespace lockstep::model {
namespace {

using arch::Role;
using parallel::BoundaryKind;
using parallel::TokenBlock;
using parallel::TokenGrid;

constexpr int microbatches = 2;
constexpr TokenGrid tokens{3, 7};

/// Sums over the ranks of a group.
class Summing final : public parallel::Boundary {
 public:
  explicit Summing(comm::Communicator& group) : group_(group) {}
  BoundaryKind kind() const override { return BoundaryKind::summing; }
  TokenBlock outside(const TokenGrid& grid) const override { return {{0, grid.samples}, {0, grid.positions}}; }
  comm::Request gather(const Tensor& /*inside*/, const Tensor& /*outside*/, const TokenGrid& /*grid*/) override {
    throw BrokenRule("rows are not split");
  }
  comm::Request reduce(const Tensor& outside, const Tensor& inside, const TokenGrid& /*grid*/) override {
    EXPECT_EQ(outside.data, inside.data);
    EXPECT_EQ(inside.dtype, DType::f32);
    return group_.all_reduce(inside, comm::Reduction::sum);
  }

 private:
  comm::Communicator& group_;
};

/// What ranks divide outside.
enum class Split : std::uint8_t { samples, positions };

/// Every rank has some rows outside; `adds` false: what is carried out is the same on all ranks, not a part of a sum.
class Splitting final : public parallel::Boundary {
 public:
  Splitting(comm::Communicator& group, Split split, bool adds) : group_(group), split_(split), adds_(adds) {}
  BoundaryKind kind() const override { return BoundaryKind::splitting; }
  TokenBlock outside(const TokenGrid& grid) const override {
    TokenBlock block{{0, grid.samples}, {0, grid.positions}};
    layout::Range& cut = split_ == Split::samples ? block.samples : block.positions;
    cut = layout::part_of(cut.count, group_.rank(), group_.size());
    return block;
  }
  comm::Request gather(const Tensor& inside, const Tensor& outside, const TokenGrid& grid) override {
    std::memset(inside.data, 0, inside.bytes());
    copy(grid, [&](std::int64_t row, std::int64_t of) { move(inside.slice_rows(of, 1), outside.slice_rows(row, 1)); });
    return group_.all_reduce(inside, comm::Reduction::sum);
  }
  comm::Request reduce(const Tensor& outside, const Tensor& inside, const TokenGrid& grid) override {
    EXPECT_EQ(inside.dtype, DType::f32);
    if (adds_) group_.all_reduce(inside, comm::Reduction::sum).wait();
    copy(grid, [&](std::int64_t row, std::int64_t of) { move(outside.slice_rows(row, 1), inside.slice_rows(of, 1)); });
    return {};
  }

 private:
  static void move(const Tensor& to, const Tensor& from) { std::memcpy(to.data, from.data, from.bytes()); }
  /// Calls with a row outside and its number inside.
  template <class Copy>
  void copy(const TokenGrid& grid, const Copy& copy) const {
    const TokenBlock block = outside(grid);
    for (std::int64_t row = 0; row < block.rows(); ++row) {
      const std::int64_t sample = block.samples.first + row / block.positions.count;
      copy(row, sample * grid.positions + block.positions.first + row % block.positions.count);
    }
  }
  comm::Communicator& group_;
  Split split_;
  bool adds_;
};

/// How the ranks of a test work together.
struct Together {
  BoundaryKind kind = BoundaryKind::summing;
  Split split = Split::samples;
  DType type = DType::f32;
  bool late_weights = false;
  int ranks = 2;
};

struct Learnt {
  double loss = 0;
  std::map<std::string, std::vector<double>> gradients;
};

std::vector<std::int32_t> numbers(int microbatch, std::uint64_t kind) {
  std::vector<std::int32_t> all;
  const CounterRng rng(kind, "test.tokens");
  for (std::int64_t i = 0; i < tokens.rows(); ++i) {
    all.push_back(static_cast<std::int32_t>(rng.below(65, static_cast<std::uint64_t>(microbatch * tokens.rows() + i))));
  }
  return all;
}

/// Forward and backward of all micro-batches; the sum of losses.
double step(support::TinyStages& model, bool late_weights) {
  double loss = 0;
  float scale = 1.0F / static_cast<float>(microbatches * tokens.rows());
  Stage& stage = *model.stages.front();
  model.gradients.begin(microbatches);
  for (int m = 0; m < microbatches; ++m) {
    std::vector<std::int32_t> ids = numbers(m, 1), next = numbers(m, 2);
    const Tensor text = view(std::span(ids), Shape{tokens.rows()}), targets = view(std::span(next), Shape{tokens.rows()});
    const Pass pass{.samples = tokens.samples,
                    .positions = tokens.positions,
                    .first_sample = m * tokens.samples,
                    .step = 3,
                    .training = true};
    const std::int64_t rows = stage.stream_rows(pass);
    const Tensor x = model.memory.output(0, Microbatch{m}).tensor.slice_rows(0, rows);
    const Tensor d = model.memory.gradient(0, Microbatch{m}).tensor.slice_rows(0, rows);
    stage.forward(pass, Microbatch{m}, text, x);
    stage.loss(pass, Microbatch{m}, x, {targets, view(std::span(&loss, 1), Shape{1}), view(std::span(&scale, 1), Shape{1})}, d);
    late_weights ? stage.backward_input(pass, Microbatch{m}, text, d) : stage.backward(pass, Microbatch{m}, text, d);
    if (late_weights && m > 0) stage.backward_weight(Microbatch{m - 1});
  }
  if (late_weights) stage.backward_weight(Microbatch{microbatches - 1});
  return loss;
}

/// Whether a rank's gradient of a parameter that no rank cuts is of its own rows alone.
bool of_own_rows(Role role) {
  static const std::set<Role> roles{Role::norm1_gain, Role::norm1_bias,         Role::norm2_gain,
                                    Role::norm2_bias, Role::final_gain,         Role::final_bias,
                                    Role::down_bias,  Role::attention_out_bias, Role::position_table};
  return roles.contains(role);
}

/// Adds what `rank` has of the whole model's gradients.
void add(Learnt& learnt, support::TinyStages& model, int rank, const Together& together) {
  for (std::size_t u = 0; u < model.parameters.units().size(); ++u) {
    const Tensor flat = model.gradients.shard(UnitIndex{static_cast<int>(u)}).gradient;
    for (const layout::PlacedParameter& placed : model.parameters.units()[u].parameters) {
      const auto role = static_cast<Role>(placed.info.role);
      const bool split = together.kind == BoundaryKind::splitting && of_own_rows(role);
      const bool cut = placed.shape() != placed.info.shape;
      if (rank > 0 && !split && !cut) continue;  // equal on all ranks
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
  if (rank > 0) return;
  const std::span<float> rows = elements<float>(model.gradients.rows());
  learnt.gradients["embedded rows"] = {rows.begin(), rows.end()};
}

const std::vector<layout::Action>& actions_of(bool late_weights) {
  static const std::vector<layout::Action> plain = support::in_turn(microbatches);
  static const std::vector<layout::Action> late = support::late_weights(microbatches, 1);
  return late_weights ? late : plain;
}

Learnt learn_alone(const arch::ModelConfig& config, DType type) {
  support::Machine machine(1);
  const std::vector<layout::Chunk> chunks{{.blocks = {0, config.layers}, .embedding = true, .head = true}};
  support::TinyStages model(config, tokens, chunks, actions_of(false), microbatches, machine, {.type = type});
  Learnt learnt;
  learnt.loss = step(model, false);
  add(learnt, model, 0, {});
  return learnt;
}

Learnt learn_together(const arch::ModelConfig& config, const Together& together) {
  const int ranks = together.ranks;
  std::vector<Learnt> learnt(static_cast<std::size_t>(ranks));
  Learnt sum;
  comm::run_ranks(ranks, {.timeout = 60}, [&](comm::Communicator& group) {
    support::Machine machine(1);
    group.attach(*machine.stream, machine.runtime->team());
    const std::unique_ptr<parallel::Boundary> local = parallel::make_local_boundary();
    Summing summing(group);
    Splitting adding(group, together.split, true), taking(group, together.split, false);
    const parallel::Boundaries boundaries =
        together.kind == BoundaryKind::summing
            ? parallel::Boundaries{.embedding = local.get(), .attention = &summing, .mlp = &summing, .head = local.get()}
            : parallel::Boundaries{.embedding = &taking, .attention = &adding, .mlp = &adding, .head = &taking};
    const std::vector<layout::Chunk> chunks{{.blocks = {0, config.layers}, .embedding = true, .head = true}};
    support::TinyStages model(config, tokens, chunks, actions_of(together.late_weights), microbatches, machine,
                              {.tensor = {group.rank(), ranks}, .boundaries = &boundaries, .type = together.type});
    Learnt& mine = learnt[static_cast<std::size_t>(group.rank())];
    mine.loss = step(model, together.late_weights);
    for (int rank = 0; rank < ranks; ++rank) {  // in turn
      if (rank == group.rank()) add(sum, model, rank, together);
      group.barrier();
    }
  });
  EXPECT_EQ(learnt.front().loss, learnt.back().loss);
  sum.loss = learnt[0].loss;
  return sum;
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

void expect_near(const Learnt& a, const Learnt& b, double tolerance) {
  EXPECT_NEAR(a.loss, b.loss, tolerance * b.loss);
  double all = 0;
  for (const auto& [name, gradient] : b.gradients) all = std::hypot(all, norm(gradient));
  for (const auto& [name, gradient] : b.gradients) {
    std::vector<double> difference = a.gradients.at(name);
    for (std::size_t i = 0; i < gradient.size(); ++i) difference[i] -= gradient[i];
    EXPECT_LE(norm(difference), tolerance * std::max(norm(gradient), 1e-6 * all)) << name;
  }
}

/// Biases and dropout everywhere; heads that do not divide; a gate; key/value heads that ranks share.
std::vector<arch::ModelConfig> models() {
  std::vector<arch::ModelConfig> all{support::tiny_model(), support::tiny_llama(), support::tiny_qwen2()};
  for (arch::ModelConfig& config : all) config.dropout = 0.2F;
  return all;
}

TEST(Boundary, SumsOverSplitWeightsAreThoseOfOneRank) {
  for (const arch::ModelConfig& config : models()) {
    expect_near(learn_together(config, {}), learn_alone(config, DType::f32), 1e-5);
  }
}

// Biases, residuals and dropout that come when sums are complete round where the fused products do.
TEST(Boundary, SumsOverOneRankHaveTheBitsOfALocalBoundary) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (arch::ModelConfig config : models()) {
      for (const float dropout : {0.0F, 0.2F}) {
        config.dropout = dropout;
        for (const BoundaryKind kind : {BoundaryKind::summing, BoundaryKind::splitting}) {
          const Learnt alone = learn_alone(config, type),
                       summed = learn_together(config, {.kind = kind, .type = type, .ranks = 1});
          EXPECT_EQ(summed.loss, alone.loss);
          for (const auto& [name, gradient] : alone.gradients) EXPECT_EQ(summed.gradients.at(name), gradient) << name;
        }
      }
    }
  }
}

TEST(Boundary, RowsMayBeSplitBetweenSamplesAndPositions) {
  for (const arch::ModelConfig& config : models()) {
    const Learnt alone = learn_alone(config, DType::f32);
    for (const Split split : {Split::samples, Split::positions}) {
      expect_near(learn_together(config, {.kind = BoundaryKind::splitting, .split = split}), alone, 1e-5);
    }
  }
}

TEST(Boundary, SumsInBf16AreRoundedOnce) {
  for (const arch::ModelConfig& config : models()) {
    const Learnt alone = learn_alone(config, DType::bf16);
    expect_near(learn_together(config, {.type = DType::bf16}), alone, 2e-2);
    expect_near(learn_together(config, {.kind = BoundaryKind::splitting, .split = Split::positions, .type = DType::bf16}), alone,
                2e-2);
  }
}

TEST(Boundary, LaterWeightGradientsHaveTheSameBits) {
  for (const arch::ModelConfig& config : models()) {
    for (const BoundaryKind kind : {BoundaryKind::summing, BoundaryKind::splitting}) {
      const Learnt now = learn_together(config, {.kind = kind}),
                   late = learn_together(config, {.kind = kind, .late_weights = true});
      EXPECT_EQ(late.loss, now.loss);
      for (const auto& [name, gradient] : now.gradients) EXPECT_EQ(late.gradients.at(name), gradient) << name;
    }
  }
}

TEST(Boundary, ALocalOneCarriesNothing) {
  const std::unique_ptr<parallel::Boundary> local = parallel::make_local_boundary();
  EXPECT_EQ(local->outside(tokens).rows(), tokens.rows());
  EXPECT_THROW((void)local->gather({}, {}, tokens), BrokenRule);
  EXPECT_THROW((void)local->reduce({}, {}, tokens), BrokenRule);
}

}  // namespace
}  // namespace lockstep::model
