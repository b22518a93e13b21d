// Ranks divide the blocks' matrices, the vocabulary, and the rows of the residual stream: each within 1e-5 of one rank.

#include "parallel/boundary.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "comm/thread/thread_world.h"
#include "model/decoder.h"
#include "parallel/tensor/splitting_boundary.h"
#include "parallel/tensor/summing_boundary.h"
#include "support/learnt.h"

namespace lockstep::model {
namespace {

using arch::Role;
using parallel::BoundaryKind;
using parallel::TokenBlock;
using parallel::TokenGrid;
using support::Learnt;

constexpr TokenGrid tokens{3, 7};

/// What ranks divide outside.
enum class Split : std::uint8_t { samples, positions };

/// A boundary where every rank has some rows outside, as the plan's own boundary has positions. `adds` false: what is carried out
/// is the same on all ranks, not a part of a sum.
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
  comm::Request collect(const Tensor& all, const Tensor& own) override { return parallel::collect_equal(group_, all, own); }
  comm::Request add_up(const Tensor& x) override { return group_.all_reduce(x, comm::Reduction::sum); }

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
  bool vocabulary = false;  ///< is divided too
  layout::Recompute recompute = {};
};

/// Whether a rank's gradient of a parameter that no rank cuts is of its own heads alone.
bool of_own_heads(Role role) { return role == Role::query_gain || role == Role::key_gain; }

/// Whether it is of its own rows alone.
bool of_own_rows(Role role) {
  static const std::set<Role> roles{Role::norm1_gain, Role::norm1_bias,         Role::norm2_gain,
                                    Role::norm2_bias, Role::final_gain,         Role::final_bias,
                                    Role::down_bias,  Role::attention_out_bias, Role::position_table};
  return roles.contains(role);
}

Learnt learn_alone(const arch::ModelConfig& config, DType type) {
  return support::learn_alone(config, support::whole_lesson(tokens), {.type = type});
}

Learnt learn_together(const arch::ModelConfig& config, const Together& together) {
  const int ranks = together.ranks;
  const support::Lesson lesson = support::whole_lesson(tokens, together.late_weights);
  std::vector<Learnt> learnt(static_cast<std::size_t>(ranks));
  Learnt sum;
  comm::run_ranks(ranks, {.timeout = 60}, [&](comm::Communicator& group) {
    support::Machine machine(1);
    group.attach(*machine.stream, machine.runtime->team());
    const std::unique_ptr<parallel::Boundary> local = parallel::make_local_boundary();
    const bool splits = together.kind == BoundaryKind::splitting;
    parallel::SummingBoundary summing(group);
    Splitting by_samples(group, Split::samples, true), taking(group, together.split, false);
    parallel::SplittingBoundary by_positions(group);
    parallel::Boundary& adding = together.split == Split::samples ? static_cast<parallel::Boundary&>(by_samples) : by_positions;
    parallel::Boundary& inner = splits ? adding : summing;
    parallel::Boundary& whole = splits ? taking : *local;
    parallel::Boundary& ends = together.vocabulary ? inner : whole;
    const parallel::Boundaries boundaries{.embedding = &ends, .attention = &inner, .mlp = &inner, .head = &ends};
    const std::vector<layout::Action> actions = lesson.actions();
    support::TinyStages model(config, tokens, support::one_chunk(config), actions, lesson.microbatches, machine,
                              {.tensor = {group.rank(), ranks},
                               .boundaries = &boundaries,
                               .type = together.type,
                               .vocabulary = together.vocabulary,
                               .recompute = together.recompute});
    Learnt& mine = learnt[static_cast<std::size_t>(group.rank())];
    learn(model, lesson, mine);
    for (int rank = 0; rank < ranks; ++rank) {  // in turn
      if (rank == group.rank())
        add(sum, model, rank, [&](Role role) { return of_own_heads(role) || (splits && of_own_rows(role)); });
      group.barrier();
    }
  });
  EXPECT_EQ(learnt.front().loss, learnt.back().loss);
  EXPECT_EQ(learnt.front().evaluated, learnt.back().evaluated);
  sum.loss = learnt[0].loss;
  sum.evaluated = learnt[0].evaluated;
  return sum;
}

TEST(Boundary, SumsOverSplitWeightsAreThoseOfOneRank) {
  for (const arch::ModelConfig& config : support::dropping_models()) {
    expect_near(learn_together(config, {}), learn_alone(config, DType::f32), 1e-5);
  }
}

// Biases, residuals and dropout that come when sums are complete round where the fused products do.
TEST(Boundary, SumsOverOneRankHaveTheBitsOfALocalBoundary) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (arch::ModelConfig config : support::dropping_models()) {
      for (const float dropout : {0.0F, 0.2F}) {
        config.dropout = dropout;
        for (const BoundaryKind kind : {BoundaryKind::summing, BoundaryKind::splitting}) {
          const Learnt alone = learn_alone(config, type),
                       summed = learn_together(config, {.kind = kind, .type = type, .ranks = 1});
          expect_equal(summed, alone);
        }
      }
    }
  }
}

TEST(Boundary, RowsMayBeSplitBetweenSamplesAndPositions) {
  for (const arch::ModelConfig& config : support::dropping_models()) {
    const Learnt alone = learn_alone(config, DType::f32);
    for (const Split split : {Split::samples, Split::positions}) {
      expect_near(learn_together(config, {.kind = BoundaryKind::splitting, .split = split}), alone, 1e-5);
    }
  }
}

TEST(Boundary, SumsInBf16AreRoundedOnce) {
  for (const arch::ModelConfig& config : support::dropping_models()) {
    const Learnt alone = learn_alone(config, DType::bf16);
    expect_near(learn_together(config, {.type = DType::bf16}), alone, 2e-2);
    expect_near(learn_together(config, {.kind = BoundaryKind::splitting, .split = Split::positions, .type = DType::bf16}), alone,
                2e-2);
  }
}

TEST(Boundary, RanksMayDivideTheVocabulary) {
  for (const arch::ModelConfig& config : support::dropping_models()) {
    const Learnt alone = learn_alone(config, DType::f32);
    for (const int ranks : {2, 3}) expect_near(learn_together(config, {.ranks = ranks, .vocabulary = true}), alone, 1e-5);
    expect_near(learn_together(config, {.kind = BoundaryKind::splitting, .split = Split::positions, .vocabulary = true}), alone,
                1e-5);
  }
}

TEST(Boundary, LaterWeightGradientsHaveTheSameBits) {
  for (const arch::ModelConfig& config : support::dropping_models()) {
    for (const BoundaryKind kind : {BoundaryKind::summing, BoundaryKind::splitting}) {
      const Learnt now = learn_together(config, {.kind = kind}),
                   late = learn_together(config, {.kind = kind, .late_weights = true});
      expect_equal(late, now);
    }
  }
}

TEST(Boundary, RecomputationHasTheSameBits) {
  for (const arch::ModelConfig& config : support::dropping_models()) {
    for (const BoundaryKind kind : {BoundaryKind::summing, BoundaryKind::splitting}) {
      const Learnt kept = learn_together(config, {.kind = kind});
      for (const layout::Recompute& recompute : support::recomputations()) {
        for (const bool late : {false, true})
          expect_equal(learn_together(config, {.kind = kind, .late_weights = late, .recompute = recompute}), kept);
      }
    }
  }
}

TEST(Boundary, ASummingOneCarriesSumsOfAllRowsAlone) {
  const std::unique_ptr<comm::Communicator> alone = comm::make_self();
  parallel::SummingBoundary summing(*alone);
  std::vector<float> values(8);
  const Tensor all = view(std::span(values), Shape{4, 2});
  EXPECT_THROW((void)summing.gather(all, all, tokens), BrokenRule);
  EXPECT_THROW((void)summing.reduce(all.slice_rows(2, 2), all.slice_rows(0, 2), tokens), BrokenRule);
  parallel::SplittingBoundary splitting(*alone);
  EXPECT_THROW((void)splitting.gather(all, all, tokens), BrokenRule);
}

TEST(Boundary, ALocalOneCarriesNothing) {
  const std::unique_ptr<parallel::Boundary> local = parallel::make_local_boundary();
  EXPECT_EQ(local->outside(tokens).rows(), tokens.rows());
  EXPECT_THROW((void)local->gather({}, {}, tokens), BrokenRule);
  EXPECT_THROW((void)local->reduce({}, {}, tokens), BrokenRule);
  EXPECT_THROW((void)local->collect({}, {}), BrokenRule);
}

// A pass of few tokens has another number of rows outside than it was declared for.
TEST(Boundary, DecodersRefuseOnesThatSplitRows) {
  comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& group) {
    support::Machine machine(1);
    group.attach(*machine.stream, machine.runtime->team());
    Splitting splitting(group, Split::samples, true);
    const parallel::Boundaries boundaries = parallel::Boundaries::all(splitting);
    const arch::ModelConfig config = support::tiny_model();
    const std::vector<layout::Action> actions = support::in_turn(1);
    support::TinyStages model(config, tokens, support::one_chunk(config), actions, 1, machine,
                              {.tensor = {group.rank(), 2}, .boundaries = &boundaries});
    EXPECT_THROW(Decoder(model.context, {.texts = 4}, 28), BrokenRule);
  });
}

/// The loss of a text of three tokens a sample as a decoder reads it, token by token.
double read(const Context& context, support::Machine& machine) {
  Decoder decoder(context, {.texts = tokens.samples}, tokens.samples);
  Arena workspace("decoder", MemoryKind::workspace), cache("cache", MemoryKind::activations);
  decoder.declare(workspace, cache);
  Ledger ledger;
  for (Arena* arena : {&workspace, &cache}) arena->commit(*machine.runtime, ledger);
  double loss = 0;
  for (std::int32_t token = 0; token < 3; ++token) {
    std::vector<std::int32_t> ids{token, 20 + token, 64 - token}, next{33, 1, 60};
    std::vector<ops::CachedText> texts;
    for (std::int64_t s = 0; s < tokens.samples; ++s) texts.push_back({.first = s, .rows = 1, .position = token, .text = s});
    const Tensor x = decoder.read(view(std::span(ids), Shape{tokens.samples}), texts);
    decoder.loss(x, {view(std::span(next), Shape{tokens.samples}), view(std::span(&loss, 1), Shape{1})});
  }
  return loss;
}

TEST(Boundary, DecodersReadWithSumsAndADividedVocabulary) {
  for (const arch::ModelConfig& config : support::dropping_models()) {
    const std::vector<layout::Action> actions = support::in_turn(1);
    support::Machine lone(1);
    const support::TinyStages whole(config, tokens, support::one_chunk(config), actions, 1, lone);
    const double expected = read(whole.context, lone);
    comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& group) {
      support::Machine machine(1);
      group.attach(*machine.stream, machine.runtime->team());
      parallel::SummingBoundary summing(group);
      const parallel::Boundaries boundaries = parallel::Boundaries::all(summing);
      const support::TinyStages model(config, tokens, support::one_chunk(config), actions, 1, machine,
                                      {.tensor = {group.rank(), 2}, .boundaries = &boundaries, .vocabulary = true});
      EXPECT_NEAR(read(model.context, machine), expected, 1e-5 * expected);
    });
  }
}

}  // namespace
}  // namespace lockstep::model
