#include "parallel/zero/tied_matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "comm/thread/thread_world.h"
#include "parallel/zero/gradients.h"
#include "support/machine.h"
#include "support/tiny_model.h"

namespace lockstep::parallel {
namespace {

constexpr std::int64_t vocabulary = 23, width = 5, padded = 128, all_microbatches = 2, rows = 4;

std::vector<std::int32_t> tokens_of(int rank, int microbatch) {
  const CounterRng rng(static_cast<std::uint64_t>(rank), "test.tokens");
  std::vector<std::int32_t> tokens(rows);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(rng.below(vocabulary, static_cast<std::uint64_t>(microbatch) * 100 + i));
  }
  return tokens;
}

float number(int rank, std::int64_t i) {
  return static_cast<float>(CounterRng(7, "test.numbers").uniform(static_cast<std::uint64_t>(rank * 1000 + i)));
}

struct Memory {
  Arena gradients{"gradients", MemoryKind::gradients}, activations{"activations", MemoryKind::activations},
      workspace{"workspace", MemoryKind::workspace};
  GradientArenas arenas{gradients, activations, workspace};
  void commit(support::Machine& machine) {
    Ledger ledger;
    for (Arena* arena : {&gradients, &activations, &workspace}) arena->commit(*machine.runtime, ledger);
  }
};

/// What a rank adds for its tokens: row `place` of the micro-batch has the numbers of (rank, microbatch, place).
void add_tokens(TiedMatrix& matrix, int rank, int microbatch) {
  std::vector<std::int32_t> tokens = tokens_of(rank, microbatch);
  matrix.expect(view(std::span(tokens), Shape{rows}));
  const Tensor e = matrix.open_rows();
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t c = 0; c < width; ++c) {
      elements<float>(e)[static_cast<std::size_t>(tokens[static_cast<std::size_t>(i)] * width + c)] +=
          number(rank, (microbatch * rows + i) * width + c);
    }
  }
}

/// E of one rank, from zero in the same order.
std::vector<float> rows_of_rank(int rank) {
  std::vector<float> e(vocabulary * width);
  for (int m = 0; m < all_microbatches; ++m) {
    const std::vector<std::int32_t> tokens = tokens_of(rank, m);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t c = 0; c < width; ++c) {
        e[static_cast<std::size_t>(tokens[static_cast<std::size_t>(i)] * width + c)] += number(rank, (m * rows + i) * width + c);
      }
    }
  }
  return e;
}

/// H + E over `ranks` ranks (at most 3: the tree over them adds in order), all of it.
std::vector<float> expected(int ranks) {
  std::vector<float> sum = rows_of_rank(0);
  for (int r = 1; r < ranks; ++r) {
    const std::vector<float> more = rows_of_rank(r);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  }
  sum.resize(padded);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = number(9, static_cast<std::int64_t>(i)) + sum[i];
  return sum;
}

/// H, cut at `cuts`, each range apart in memory of its own, with E added.
std::vector<float> sum_in_ranges(TiedMatrix& matrix, const std::vector<std::int64_t>& cuts) {
  std::vector<float> all;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    std::vector<float> h;
    for (std::int64_t k = cuts[i]; k < cuts[i + 1]; ++k) h.push_back(number(9, k));
    matrix.add_rows(view(std::span(h), Shape{std::ssize(h)}), cuts[i]);
    all.insert(all.end(), h.begin(), h.end());
  }
  return all;
}

TEST(TiedMatrix, AnyRangesGiveTheSumOfBothParts) {
  for (const int ranks : {1, 2, 3}) {
    const std::vector<float> right = expected(ranks);
    comm::run_ranks(ranks, {.timeout = 60}, [&](comm::Communicator& group) {
      support::Machine machine(1);
      group.attach(*machine.stream, machine.runtime->team());
      Memory memory;
      TiedMatrixMemory parts;
      parts.declare(memory.arenas, {Shape{vocabulary, width}, all_microbatches * rows, group.size()});
      TiedMatrix matrix(parts, group, *machine.ops);
      memory.commit(machine);
      for (const std::vector<std::int64_t>& cuts : std::vector<std::vector<std::int64_t>>{
               {0, padded}, {0, 50, padded}, {0, 3, 4, 61, 62, 64, 115, padded}, {0, 0, 7, 115, 120, padded}, {0, 113, padded}}) {
        matrix.begin();
        for (int m = 0; m < all_microbatches; ++m) add_tokens(matrix, group.rank(), m);
        matrix.reduce_rows();
        EXPECT_EQ(sum_in_ranges(matrix, cuts), right) << ranks << " ranks";
        for (const float left : elements<float>(matrix.rows())) ASSERT_EQ(left, 0);
      }
    });
  }
}

TEST(TiedMatrix, AStepWhosePartsStayApartLeavesNothingToTheNext) {
  support::Machine machine(1);
  Memory memory;
  TiedMatrixMemory parts;
  parts.declare(memory.arenas, {Shape{vocabulary, width}, all_microbatches * rows});
  TiedMatrix matrix(parts, *machine.world, *machine.ops);
  memory.commit(machine);
  add_tokens(matrix, 1, 0);
  matrix.begin();
  for (int m = 0; m < all_microbatches; ++m) add_tokens(matrix, 0, m);
  const std::vector<float> e = rows_of_rank(0);
  EXPECT_TRUE(std::ranges::equal(elements<float>(matrix.rows()), e));
}

TEST(TiedMatrix, MemoryForOneRankDoesNotServeTwo) {
  comm::run_ranks(2, {.timeout = 60}, [](comm::Communicator& group) {
    support::Machine machine(1);
    Memory memory;
    TiedMatrixMemory parts;
    parts.declare(memory.arenas, {Shape{vocabulary, width}, 3});
    EXPECT_THROW(TiedMatrix(parts, group, *machine.ops), BrokenRule);
  });
}

TEST(TiedMatrix, MoreTokensThanItWasMadeForAreRefused) {
  support::Machine machine(1);
  Memory memory;
  TiedMatrixMemory parts;
  parts.declare(memory.arenas, {Shape{vocabulary, width}, 3});
  TiedMatrix matrix(parts, *machine.world, *machine.ops);
  memory.commit(machine);
  std::vector<std::int32_t> tokens{1, 2, 3, 4};
  matrix.expect(view(std::span(tokens), Shape{4}));
  EXPECT_THROW(matrix.reduce_rows(), BrokenRule);
}

/// A store of a tiny model's gradients, on one rank.
struct Store {
  explicit Store(bool tied) : config(support::tiny_model()) {
    config.tied = tied;
    map = arch::unit_map(config);
    GradientWork work{.microbatches = 2, .tokens = 6, .order = arch::backward_order(map)};
    if (tied) work.tied = {.unit = map.tied, .shape = arch::token_table(units(), map).shape};
    parts.declare(memory.arenas, units(), work);
    gradients.emplace(units(), map, 2, parts, GradientGroups{*machine.world}, *machine.ops, GradientOptions{});
    memory.commit(machine);
  }
  const std::vector<layout::Unit>& units() {
    if (units_.empty()) units_ = arch::units_of(arch::unit_table(config));
    return units_;
  }
  /// Micro-batch m: every dense gradient becomes 1 more, the embedding adds 10 to the row of each of its three tokens.
  void add(int m, std::vector<std::int32_t> tokens) {
    for (const UnitIndex unit : arch::backward_order(map)) {
      const OpenGradient open = gradients->open(unit, Microbatch{m});
      for (float& g : elements<float>(open.flat)) g = open.accumulate ? g + 1 : 1;
      if (unit == map.embedding) {
        gradients->expect(view(std::span(tokens), Shape{3}));
        const Tensor table = gradients->open_rows(Microbatch{m});
        for (const std::int32_t token : tokens) {
          for (float& g : elements<float>(table.slice_rows(token, 1))) g += 10;
        }
      }
      gradients->close(unit, Microbatch{m});
    }
  }
  /// One element of each row of the token table's gradient.
  std::vector<float> table() {
    const arch::TokenTable place = arch::token_table(units(), map);
    const Tensor flat = gradients->shard(place.unit).gradient;
    std::vector<float> column;
    for (std::int64_t row = 0; row < place.shape.rows(); ++row) {
      column.push_back(elements<float>(flat)[static_cast<std::size_t>(place.offset + row * place.shape.last())]);
    }
    return column;
  }
  arch::ModelConfig config;
  arch::UnitMap map;
  support::Machine machine{1};
  Memory memory;
  GradientMemory parts;
  std::optional<ZeroGradients> gradients;

 private:
  std::vector<layout::Unit> units_;
};

TEST(GradientStore, EmbeddedRowsReachTheTokenTableWhereverItLies) {
  for (const bool tied : {true, false}) {
    Store store(tied);
    for (int step = 0; step < 2; ++step) {
      store.gradients->begin(2);
      store.add(0, {4, 4, 9});
      store.add(1, {9, 1, 0});
      store.gradients->finish();
      // Tied: two micro-batches' dense parts and the rows. Untied: micro-batch 0's dense 1 is zeroed, micro-batch 1 adds 1.
      const float dense = tied ? 2 : 1;
      const std::vector<float> column = store.table();
      for (std::size_t row = 0; row < column.size(); ++row) {
        const float rows_of_token = row == 4 || row == 9 ? 20 : row <= 1 ? 10 : 0;
        EXPECT_EQ(column[row], dense + rows_of_token) << row;
      }
    }
  }
}

TEST(GradientStore, PartsOfATiedMatrixCanStayApart) {
  Store store(true);
  store.gradients->begin(2);
  store.add(0, {4, 4, 9});
  store.add(1, {9, 1, 0});
  store.gradients->finish_apart();
  for (const float h : store.table()) EXPECT_EQ(h, 2);
  const Tensor rows_apart = store.gradients->tied_rows();
  EXPECT_EQ(elements<float>(rows_apart.slice_rows(9, 1))[0], 20);
  EXPECT_EQ(elements<float>(rows_apart.slice_rows(2, 1))[0], 0);
}

TEST(GradientStore, RowsAreAddedWhileTheEmbeddingIsOpen) {
  Store store(false);
  store.gradients->begin(2);
  EXPECT_THROW((void)store.gradients->open_rows(Microbatch{0}), BrokenRule);
}

}  // namespace
}  // namespace lockstep::parallel
