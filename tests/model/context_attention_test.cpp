// Two ranks have some positions each of every sample, and attention in which they exchange positions for heads: loss and
// gradients are within 1e-5 of one rank.

#include "parallel/context_attention.h"

#include <gtest/gtest.h>

#include <cstring>

#include "comm/thread/thread_world.h"
#include "support/learnt.h"

namespace lockstep::model {
namespace {

using layout::Range;
using parallel::AttentionCall;
using parallel::AttentionSaved;
using parallel::AttentionSizes;
using parallel::AttentionTensors;
using parallel::TokenGrid;
using support::Learnt;
using support::Lesson;

constexpr TokenGrid tokens{3, 7};

/// Where each rank's positions lie.
using Cut = std::vector<ops::Positions>;

Cut halves() { return {{0, 3}, {3, 4}}; }
/// One from the front and one from the back, so that both see as many keys.
Cut zigzag() { return {{{0, 1}, {5, 2}}, {1, 4}}; }

/// The heads that a rank sees all positions of, and the key/value heads that they read.
struct Heads {
  Range query, kv;
};
Heads heads_of(const layout::ShardedDims& dims, int rank, int ranks) {
  const layout::TensorRank place{rank, ranks};
  return {layout::held_pieces({.pieces = dims.heads}, place),
          layout::held_pieces({.pieces = dims.kv_heads, .users = dims.heads_per_kv}, place)};
}

/// Rank r has positions cut[r] of all heads outside, and all positions of heads_of(r) when attention runs.
class Exchanging final : public parallel::ContextAttention {
 public:
  Exchanging(const TokenGrid& grid, const Cut& cut, int rank) : grid_(grid), cut_(cut), rank_(rank) {}
  void connect(comm::Communicator& group) { group_ = &group; }

  void declare(Arena& arena, AttentionSaved& saved, const AttentionSizes& sizes) const override {
    arena.declare(saved.lse, "lse", Shape{grid_.rows() * heads(sizes.dims, rank_).query.count}, DType::f32);
    declare_heads(arena, saved.beside, sizes);
  }
  void declare(Arena& arena, const AttentionSizes& sizes) override {
    const std::int64_t here = heads(sizes.dims, rank_).query.count;
    const std::int64_t columns = ops::delta_columns(here, sizes.dims.head_size, sizes.type);
    arena.declare(delta_, "delta", Shape{grid_.rows(), columns}, DType::f32);
    declare_heads(arena, d_, sizes);
    const std::int64_t most = (grid_.rows() + sizes.rows * ranks()) * sizes.dims.attention_width();
    arena.declare(sent_, "sent", Shape{most}, sizes.type);
    arena.declare(received_, "received", Shape{most}, sizes.type);
  }

  void forward(ops::Ops& ops, const AttentionTensors& x, const AttentionSaved& saved, const AttentionCall& call) override {
    const Inner inner(*this, call);
    const AttentionTensors& all = saved.beside;
    inwards(all.q, x.q, inner.query);
    inwards(all.k, x.k, inner.kv);
    inwards(all.v, x.v, inner.kv);
    ops.attention().forward(all.o, saved.lse, all.q, all.k, all.v, inner.shape, inner.dropout);
    outwards(x.o, all.o, inner.query);
  }
  void backward(ops::Ops& ops, const AttentionTensors& d, const AttentionTensors& /*x*/, const AttentionSaved& saved,
                const AttentionCall& call) override {
    const Inner inner(*this, call);
    const AttentionTensors& all = saved.beside;
    inwards(d_.o, d.o, inner.query);
    ops.attention().backward(d_.q, d_.k, d_.v, delta_, d_.o, all.o, saved.lse, all.q, all.k, all.v, inner.shape, inner.dropout);
    outwards(d.q, d_.q, inner.query);
    outwards(d.k, d_.k, inner.kv);
    outwards(d.v, d_.v, inner.kv);
  }

 private:
  using HeadsOfRank = std::vector<Range>;
  /// The call that attention gets: all positions, this rank's heads.
  struct Inner {
    Inner(const Exchanging& of, const AttentionCall& call) : shape(call.shape), dropout(call.dropout) {
      const layout::ShardedDims dims{.heads = shape.heads, .kv_heads = shape.kv_heads, .heads_per_kv = shape.group_size()};
      for (int rank = 0; rank < of.ranks(); ++rank) {
        const Heads heads = of.heads(dims, rank);
        query.push_back({heads.query.first * shape.head_size, heads.query.count * shape.head_size});
        kv.push_back({heads.kv.first * shape.head_size, heads.kv.count * shape.head_size});
      }
      const Heads own = of.heads(dims, of.rank_);
      shape.queries = shape.keys = shape.key_rows = of.grid_.positions;
      shape.group = dims.heads_per_kv;
      shape.heads = own.query.count;
      shape.kv_heads = own.kv.count;
      shape.skipped = own.query.first - own.kv.first * shape.group;
      dropout.first_index += own.query.first * dropout.index_stride;
    }
    ops::AttentionShape shape;
    ops::DropoutSite dropout;
    HeadsOfRank query, kv;  ///< columns
  };

  int ranks() const { return static_cast<int>(cut_.size()); }
  Heads heads(const layout::ShardedDims& dims, int rank) const { return heads_of(dims, rank, ranks()); }
  void declare_heads(Arena& arena, AttentionTensors& of, const AttentionSizes& sizes) const {
    const Heads own = heads(sizes.dims, rank_);
    for (Tensor* t : {&of.q, &of.o}) {
      arena.declare(*t, "heads", Shape{grid_.rows(), own.query.count * sizes.dims.head_size}, sizes.type);
    }
    for (Tensor* t : {&of.k, &of.v}) {
      arena.declare(*t, "kv_heads", Shape{grid_.rows(), own.kv.count * sizes.dims.head_size}, sizes.type);
    }
  }
  std::int64_t rows_of(int rank) const { return grid_.samples * cut_[static_cast<std::size_t>(rank)].count(); }
  /// The number, among all positions' rows, of row `row` of a rank's own.
  std::int64_t place(int rank, std::int64_t row) const {
    const ops::Positions& positions = cut_[static_cast<std::size_t>(rank)];
    return row / positions.count() * grid_.positions + positions.at(row % positions.count());
  }
  /// visit(rank, row, floats of a message) for every row of all messages, which have row_of(rank) rows of width_of(rank).
  template <class Rows, class Width, class Visit>
  void for_rows(const Tensor& messages, const Rows& row_count, const Width& width_of, const Visit& visit) const {
    float* at = elements<float>(messages).data();
    for (int rank = 0; rank < ranks(); ++rank) {
      for (std::int64_t row = 0; row < row_count(rank); ++row, at += width_of(rank)) visit(rank, row, at);
    }
  }
  static float* floats(const Tensor& x, std::int64_t row, std::int64_t column = 0) {
    return reinterpret_cast<float*>(x.data) + row * x.stride() + column;
  }
  template <class RowsSent, class WidthSent, class RowsReceived, class WidthReceived>
  void exchange(const RowsSent& rows_sent, const WidthSent& sent, const RowsReceived& rows_received,
                const WidthReceived& received) {
    std::vector<std::int64_t> to, from;
    std::int64_t out = 0, in = 0;
    for (int rank = 0; rank < ranks(); ++rank) {
      out += to.emplace_back(rows_sent(rank) * sent(rank));
      in += from.emplace_back(rows_received(rank) * received(rank));
    }
    group_->all_to_all(received_.flat(0, in), from, sent_.flat(0, out), to).wait();
  }
  /// all [all rows, columns of this rank's heads] of every rank's own [its rows, all columns].
  void inwards(const Tensor& all, const Tensor& own, const HeadsOfRank& columns) {
    const auto range = [&](int rank) { return columns[static_cast<std::size_t>(rank)]; };
    const auto mine = [&](int) { return rows_of(rank_); };
    const auto theirs = [&](int rank) { return rows_of(rank); };
    const auto width = [&](int rank) { return range(rank).count; };
    const auto width_here = [&](int) { return range(rank_).count; };
    for_rows(sent_, mine, width,
             [&](int rank, std::int64_t row, float* to) { std::copy_n(floats(own, row, range(rank).first), width(rank), to); });
    exchange(mine, width, theirs, width_here);
    for_rows(received_, theirs, width_here, [&](int rank, std::int64_t row, const float* from) {
      std::copy_n(from, width_here(rank), floats(all, place(rank, row)));
    });
  }
  /// The way back; what several ranks have of a head is summed.
  void outwards(const Tensor& own, const Tensor& all, const HeadsOfRank& columns) {
    const auto range = [&](int rank) { return columns[static_cast<std::size_t>(rank)]; };
    const auto mine = [&](int) { return rows_of(rank_); };
    const auto theirs = [&](int rank) { return rows_of(rank); };
    const auto width = [&](int rank) { return range(rank).count; };
    const auto width_here = [&](int) { return range(rank_).count; };
    for_rows(sent_, theirs, width_here,
             [&](int rank, std::int64_t row, float* to) { std::copy_n(floats(all, place(rank, row)), width_here(rank), to); });
    exchange(theirs, width_here, mine, width);
    for (std::int64_t row = 0; row < own.rows(); ++row) std::fill_n(floats(own, row), own.columns(), 0.0F);
    for_rows(received_, mine, width, [&](int rank, std::int64_t row, const float* from) {
      float* to = floats(own, row, range(rank).first);
      for (std::int64_t i = 0; i < width(rank); ++i) to[i] += from[i];
    });
  }

  TokenGrid grid_;
  Cut cut_;
  int rank_;
  comm::Communicator* group_ = nullptr;
  Tensor delta_, sent_, received_;
  AttentionTensors d_;
};

Learnt learn_together(const arch::ModelConfig& config, const Cut& cut, bool late_weights = false) {
  const int ranks = static_cast<int>(cut.size());
  std::vector<Learnt> learnt(cut.size());
  Learnt sum;
  comm::run_ranks(ranks, {.timeout = 60}, [&](comm::Communicator& group) {
    support::Machine machine(1);
    group.attach(*machine.stream, machine.runtime->team());
    const auto rank = static_cast<std::size_t>(group.rank());
    const Lesson lesson{.tokens = tokens, .positions = cut[rank], .late_weights = late_weights};
    const std::vector<layout::Action> actions = lesson.actions();
    Exchanging attention(tokens, cut, group.rank());
    support::TinyStages model(config, lesson.own(), support::one_chunk(config), actions, lesson.microbatches, machine,
                              {.attention = &attention});
    attention.connect(group);
    learn(model, lesson, learnt[rank]);
    for (int r = 0; r < ranks; ++r) {  // in turn
      if (r == group.rank()) add(sum, model, r, [](arch::Role) { return true; });
      group.barrier();
    }
  });
  for (const Learnt& part : learnt) {
    sum.loss += part.loss;
    sum.evaluated += part.evaluated;
  }
  return sum;
}

TEST(ContextAttention, RanksWithSomePositionsEachLearnWhatOneRankDoes) {
  for (const arch::ModelConfig& config : support::dropping_models()) {
    const Learnt alone = learn_alone(config, support::whole_lesson(tokens));
    for (const Cut& cut : {halves(), zigzag()}) expect_near(learn_together(config, cut), alone, 1e-5);
  }
}

TEST(ContextAttention, LaterWeightGradientsHaveTheSameBits) {
  for (const arch::ModelConfig& config : support::dropping_models()) {
    expect_equal(learn_together(config, zigzag(), true), learn_together(config, zigzag()));
  }
}

TEST(ContextAttention, OneRankThatExchangesHasTheBitsOfALocalOne) {
  for (const arch::ModelConfig& config : support::dropping_models()) {
    expect_equal(learn_together(config, {{0, tokens.positions}}), learn_alone(config, support::whole_lesson(tokens)));
  }
}

// A planner counts what it takes where there is no group.
TEST(ContextAttention, DeclaresFromSizesAlone) {
  const layout::ShardedDims dims = arch::whole_dims(support::tiny_llama());
  const auto bytes_of = [&](parallel::ContextAttention& attention, std::int64_t rows) {
    Arena arena("attention", MemoryKind::activations);
    AttentionSaved saved;
    attention.declare(arena, saved, {rows, dims, DType::f32});
    attention.declare(arena, {rows, dims, DType::f32});
    return arena.bytes();
  };
  const auto rounded = [](std::int64_t floats) { return (floats * 4 + 63) / 64 * 64; };
  const std::int64_t all = tokens.rows(), own = 3 * 3, head = dims.head_size;
  Exchanging first(tokens, halves(), 0);
  const std::int64_t heads = 3, kv = 1;  // of 6 and 2
  EXPECT_EQ(bytes_of(first, own), 2 * rounded(all * heads) + 4 * rounded(all * heads * head) + 4 * rounded(all * kv * head) +
                                      2 * rounded((all + 2 * own) * 6 * head));
  EXPECT_EQ(bytes_of(*parallel::make_local_attention(), all), 2 * rounded(all * 6)) << "lse and delta";
}

TEST(ContextAttention, ALocalOneHasAllPositions) {
  const auto ops = ops::make_reference_ops();
  const auto local = parallel::make_local_attention();
  AttentionCall call{.shape = {.samples = 1, .queries = 3, .keys = 3, .key_rows = 3, .heads = 1, .kv_heads = 1, .head_size = 2},
                     .positions = {4, 3},
                     .dropout = {}};
  EXPECT_THROW(local->forward(*ops, {}, {}, call), BrokenRule);
  EXPECT_THROW(local->backward(*ops, {}, {}, {}, call), BrokenRule);
}

}  // namespace
}  // namespace lockstep::model
