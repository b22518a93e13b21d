#include "ops/embedding.h"

#include <gtest/gtest.h>

#include <array>

#include "ops/cpu/token_order.h"
#include "support/documents.h"
#include "support/ops.h"

namespace lockstep::test {
namespace {

struct Sizes {
  std::int64_t samples, positions, width;
  std::int32_t vocabulary;
};

class EmbeddingSizes : public testing::TestWithParam<std::tuple<Sizes, DType>> {};

INSTANTIATE_TEST_SUITE_P(Odd, EmbeddingSizes,
                         testing::Combine(testing::Values(Sizes{1, 1, 1, 1}, Sizes{3, 7, 30, 65}, Sizes{130, 3, 80, 5},
                                                          Sizes{12, 64, 128, 65}, Sizes{2, 17, 1025, 600}),
                                          storage_types));

class EmbeddingOf : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Storage, EmbeddingOf, storage_types);

TEST_P(EmbeddingSizes, EqualsReference) {
  const auto [samples, positions, width, vocabulary] = std::get<0>(GetParam());
  const DType type = std::get<1>(GetParam());
  const std::int64_t rows = samples * positions;
  std::vector<std::int32_t> ids = random_ids(static_cast<std::size_t>(rows), 0, vocabulary, 1);
  const Tensor tokens = ids_tensor(ids);
  const HostTensor table = HostTensor::random({vocabulary, width}, 2).as(type);
  const HostTensor places = HostTensor::random({positions + 3, width}, 3).as(type);
  const HostTensor dy = HostTensor::random({rows, width}, 4).as(type);
  compare_everywhere(
      [&](ops::Ops& ops) {
        HostTensor y(dy.tensor().shape, dy.type()), without = y, d_table = HostTensor::random({vocabulary, width}, 5);
        HostTensor d_places = HostTensor::random({positions + 3, width}, 6), accumulated = d_places;
        HostTensor sum = HostTensor::random({vocabulary, width}, 7), part = d_table;
        ops.embedding().forward(y, tokens, table, places, {3, positions});
        ops.embedding().forward(without, tokens, table, {}, {0, positions});
        ops.embedding().backward_tokens(d_table, dy, tokens);
        ops.embedding().backward_positions(d_places, dy, {0, positions}, false);
        ops.embedding().backward_positions(accumulated, dy, {0, positions}, true);
        ops.embedding().add_rows(sum, part, tokens);
        HostTensor d_ends = HostTensor::random({positions + 3, width}, 8), d_more = d_ends;
        const ops::Positions ends({0, positions / 2}, {positions / 2 + 2, positions - positions / 2});
        ops.embedding().backward_positions(d_ends, dy, ends, false);
        ops.embedding().backward_positions(d_more, dy, ends, true);
        return Results{y, without, d_table, d_places, accumulated, sum, part, d_ends, d_more};
      },
      2e-6);
}

/// Tokens [first, last) of a vocabulary, part by part: uneven, one of them empty.
constexpr std::array<std::pair<std::int64_t, std::int64_t>, 4> parts_of_65{{{0, 17}, {17, 40}, {40, 40}, {40, 65}}};

TEST_P(EmbeddingOf, PartsOfTheVocabularyEqualReference) {
  std::vector<std::int32_t> ids = random_ids(150, 0, 65, 1);
  const HostTensor places = HostTensor::random({50, 33}, 3).as(GetParam()), dy = HostTensor::random({150, 33}, 4).as(GetParam());
  for (const auto& [first, last] : parts_of_65) {
    if (first == last) continue;
    const HostTensor table = HostTensor::random({last - first, 33}, 2).as(GetParam());
    compare_everywhere(
        [&, first_token = first, rows = last - first](ops::Ops& ops) {
          HostTensor y(dy.tensor().shape, dy.type()), d_table = HostTensor::random({rows, 33}, 5);
          ops.embedding().forward(y, ids_tensor(ids), table, places, {0, 50}, first_token);
          ops.embedding().backward_tokens(d_table, dy, ids_tensor(ids), first_token);
          return Results{y, d_table};
        },
        2e-6);
  }
}

// Each row is one part's and zero in the others.
TEST_P(EmbeddingOf, PartsOfTheVocabularyHaveTheBitsOfTheWhole) {
  std::vector<std::int32_t> ids = random_ids(300, 0, 65, 1);
  const HostTensor table = HostTensor::random({65, 33}, 2).as(GetParam()),
                   places = HostTensor::random({60, 33}, 3).as(GetParam());
  const HostTensor dy = HostTensor::random({300, 33}, 4).as(GetParam());
  for (const auto& machine : machines()) {
    ops::Embedding& embedding = machine->ops->embedding();
    HostTensor whole({300, 33}, GetParam()), sum = whole, d_whole({65, 33}), d_parts = d_whole;
    embedding.forward(whole, ids_tensor(ids), table, places, {0, 60});
    embedding.backward_tokens(d_whole, dy, ids_tensor(ids));
    for (const auto& [first, last] : parts_of_65) {
      const HostTensor part = HostTensor::random({300, 33}, 6).as(GetParam());
      embedding.forward(part, ids_tensor(ids), table.tensor().slice_rows(first, last - first), places, {0, 60}, first);
      machine->ops->elementwise().add(sum, part);
      embedding.backward_tokens(d_parts.tensor().slice_rows(first, last - first), dy, ids_tensor(ids), first);
    }
    EXPECT_EQ(different_bits(sum.values(), whole.values()), 0U) << machine->name;
    EXPECT_EQ(different_bits(d_parts.values(), d_whole.values()), 0U) << machine->name;
  }
}

TEST(Embedding, TakenRowsLeaveZeros) {
  std::vector<std::int32_t> ids{7, 0, 3};
  compare_everywhere(
      [&](ops::Ops& ops) {
        HostTensor part = HostTensor::random({9, 30}, 1), rows({3, 30});
        ops.embedding().take_rows(rows, part, ids_tensor(ids));
        return Results{rows, part};
      },
      0);
}

// More tokens than are sorted at a time.
TEST(Embedding, ManyTokens) {
  const std::int64_t rows = ops::cpu::max_sorted_tokens + 1000;
  std::vector<std::int32_t> ids = random_ids(static_cast<std::size_t>(rows), 0, 2000, 1);
  const HostTensor dy = HostTensor::random({rows, 20}, 2);
  compare_everywhere(
      [&](ops::Ops& ops) {
        HostTensor d_table({2000, 20}), sum({2000, 20});
        ops.embedding().backward_tokens(d_table, dy, ids_tensor(ids));
        ops.embedding().add_rows(sum, d_table, ids_tensor(ids));
        return Results{sum, d_table};
      },
      2e-6);
}

TEST_P(EmbeddingOf, SlicesOfTokensHaveEqualBits) {
  std::vector<std::int32_t> ids = random_ids(256, 0, 9, 1);
  const HostTensor dy = HostTensor::random({256, 100}, 2).as(GetParam());
  for (const auto& machine : machines()) {
    HostTensor whole({9, 100}), parts({9, 100});
    machine->ops->embedding().backward_tokens(whole, dy, ids_tensor(ids));
    for (const auto& [first, count] : {std::pair{0, 64}, std::pair{64, 128}, std::pair{192, 64}}) {
      machine->ops->embedding().backward_tokens(parts, dy.tensor().slice_rows(first, count), ids_tensor(ids).flat(first, count));
    }
    EXPECT_EQ(different_bits(whole.values(), parts.values()), 0U);
  }
}

TEST_P(EmbeddingOf, SlicesOfColumnsHaveEqualBits) {
  std::vector<std::int32_t> ids = random_ids(200, 0, 9, 1);
  const HostTensor dy = HostTensor::random({200, 100}, 2).as(GetParam());
  for (const auto& machine : machines()) {
    HostTensor whole({9, 100}), parts({9, 100});
    machine->ops->embedding().backward_tokens(whole, dy, ids_tensor(ids));
    for (const auto& [first, count] : {std::pair{0, 3}, std::pair{3, 70}, std::pair{73, 27}}) {
      machine->ops->embedding().backward_tokens(parts.tensor().slice_columns(first, count),
                                                dy.tensor().slice_columns(first, count), ids_tensor(ids));
    }
    EXPECT_EQ(different_bits(whole.values(), parts.values()), 0U);
  }
}

// Rows of a sample from two ends, as a rank of context parallelism has them, and the others.
TEST_P(EmbeddingOf, RowsOfAnyPositionsHaveEqualBits) {
  constexpr std::int64_t samples = 70, length = 12, width = 50;
  std::vector<std::int32_t> ids = random_ids(samples * length, 0, 9, 1);
  const HostTensor table = HostTensor::random({9, width}, 2).as(GetParam());
  const HostTensor places = HostTensor::random({length + 1, width}, 3).as(GetParam());
  const HostTensor dy = HostTensor::random({samples * length, width}, 4).as(GetParam());
  for (const auto& machine : machines()) {
    ops::Embedding& embedding = machine->ops->embedding();
    HostTensor whole({samples * length, width}, GetParam()), d_whole = HostTensor::random({length + 1, width}, 5);
    embedding.forward(whole, ids_tensor(ids), table, places, {0, length});
    embedding.backward_positions(d_whole, dy, {0, length}, false);
    HostTensor d_sum({length + 1, width});
    for (const ops::Positions& part : {ops::Positions({0, 3}, {9, 3}), ops::Positions(3, 6)}) {
      std::vector<std::int32_t> some;
      for (const std::int64_t row : rows_at(samples, length, part)) some.push_back(ids[static_cast<std::size_t>(row)]);
      const HostTensor y({samples * part.count(), width}, GetParam());
      embedding.forward(y, ids_tensor(some), table, places, part);
      EXPECT_EQ(different_bits(y.values(), rows_of(whole, length, part).values()), 0U) << machine->name;
      const HostTensor d_part = HostTensor::random({length + 1, width}, 6);
      embedding.backward_positions(d_part, rows_of(dy, length, part), part, false);
      machine->ops->elementwise().add(d_sum, d_part);  // a position is one part's alone: the other one's row is zero
    }
    EXPECT_EQ(different_bits(d_sum.values(), d_whole.values()), 0U) << machine->name;
  }
}

TEST(Embedding, ReferenceAgainstFiniteDifferences) {
  const auto ops = ops::make_reference_ops();
  std::vector<std::int32_t> ids = random_ids(14, 0, 5, 1);
  HostTensor table = HostTensor::random({5, 6}, 2), places = HostTensor::random({7, 6}, 3), y({14, 6});
  HostTensor d_table({5, 6}), d_places({7, 6});
  const HostTensor dy = HostTensor::random({14, 6}, 4);
  const auto loss = [&] {
    ops->embedding().forward(y, ids_tensor(ids), table, places, {0, 7});
    return inner(y, dy);
  };
  ops->embedding().backward_tokens(d_table, dy, ids_tensor(ids));
  ops->embedding().backward_positions(d_places, dy, {0, 7}, false);
  expect_gradient(d_table, table, loss, 0.1F, 1e-5);
  expect_gradient(d_places, places, loss, 0.1F, 1e-5);
}

TEST(Embedding, TokensInOrderOfRowThenPlace) {
  const std::vector<std::int32_t> ids = {50303, 7, 1024, 7, 0, 50303, 1023};
  std::vector<ops::cpu::TokenPlace> memory(14);
  std::vector<std::pair<std::int32_t, std::int32_t>> order;
  for (const auto& token : ops::cpu::sort_by_row(ids, {0, 50304}, 100, memory)) order.emplace_back(token.row, token.place);
  const std::vector<std::pair<std::int32_t, std::int32_t>> expected = {{0, 104},    {7, 101},     {7, 103},    {1023, 106},
                                                                       {1024, 102}, {50303, 100}, {50303, 105}};
  EXPECT_EQ(order, expected);
  order.clear();
  for (const auto& token : ops::cpu::sort_by_row(ids, {7, 1017}, 0, memory)) order.emplace_back(token.row, token.place);
  EXPECT_EQ(order, (std::vector<std::pair<std::int32_t, std::int32_t>>{{0, 1}, {0, 3}, {1016, 6}})) << "rows of a part";
  memory.resize(13);
  EXPECT_THROW(ops::cpu::sort_by_row(ids, {0, 50304}, 0, memory), BrokenRule);
}

TEST(Embedding, BrokenRules) {
  const auto ops = ops::make_reference_ops();
  ops::Embedding& embedding = ops->embedding();
  std::vector<std::int32_t> ids(6), few(5);
  const HostTensor y({6, 4}), table({9, 4}), places({3, 4}), narrow({9, 3}), floats({6});
  const Tensor tokens = ids_tensor(ids);
  EXPECT_THROW(embedding.forward(y, ids_tensor(few), table, places, {0, 3}), BrokenRule);
  EXPECT_THROW(embedding.forward(y, floats, table, places, {0, 3}), BrokenRule);
  EXPECT_THROW(embedding.forward(y, tokens, narrow, places, {0, 3}), BrokenRule);
  EXPECT_THROW(embedding.forward(y, tokens, table, narrow, {0, 3}), BrokenRule);
  EXPECT_THROW(embedding.forward(y, tokens, table, places, {0, 4}), BrokenRule);
  EXPECT_THROW(embedding.forward(y, tokens, table, places, {1, 3}), BrokenRule);
  EXPECT_THROW(embedding.forward(y, tokens, table, places, {-1, 3}), BrokenRule);
  EXPECT_THROW(embedding.forward(y, tokens, table, places, {0, 3}, -1), BrokenRule);
  EXPECT_THROW(embedding.backward_tokens(table, y, tokens, -1), BrokenRule);
  EXPECT_THROW(embedding.backward_tokens(narrow, y, tokens), BrokenRule);
  EXPECT_THROW(embedding.backward_tokens(table, y, ids_tensor(few)), BrokenRule);
  EXPECT_THROW(embedding.backward_positions(places, y, {0, 4}, false), BrokenRule);
  EXPECT_THROW(embedding.backward_positions(places, y, {0, 6}, false), BrokenRule);
  EXPECT_THROW(embedding.backward_positions(narrow, y, {0, 3}, false), BrokenRule);
  EXPECT_THROW(embedding.add_rows(table, narrow, tokens), BrokenRule);
  EXPECT_THROW(embedding.add_rows(table, table, floats), BrokenRule);
  Tensor elsewhere = table;
  elsewhere.device.kind = DeviceKind::cuda;
  EXPECT_THROW(embedding.forward(y, tokens, elsewhere, places, {0, 3}), BrokenRule);
  EXPECT_THROW(embedding.backward_tokens(elsewhere, y, tokens), BrokenRule);
  EXPECT_THROW(embedding.backward_positions(elsewhere, y, {0, 3}, false), BrokenRule);
  EXPECT_THROW(embedding.add_rows(elsewhere, table, tokens), BrokenRule);
}

TEST(Embedding, PositionsOfDocumentsCountFromTheirStarts) {
  support::Documents documents({3, 1, 5}, 2);
  std::vector<std::int32_t> ids = random_ids(18, 0, 11, 3);
  const HostTensor table = HostTensor::random({11, 40}, 1), places = HostTensor::random({9, 40}, 2);
  const HostTensor dy = HostTensor::random({18, 40}, 4), before = HostTensor::random({9, 40}, 5);
  const auto run = [&](ops::Ops& ops, HostTensor& y, HostTensor& d, HostTensor& more) {
    ops.embedding().forward(y, ids_tensor(ids), table, places, {0, 9}, 0, documents.starts());
    ops.embedding().backward_positions(d, dy, {0, 9}, false, documents.starts());
    ops.embedding().backward_positions(more, dy, {0, 9}, true, documents.starts());
  };
  HostTensor y({18, 40}), d = before, more = before;
  run(*ops::make_reference_ops(), y, d, more);
  for (const std::size_t row : {4U, 13U}) {  // the fifth of each sample begins a document
    for (std::size_t j = 0; j < 40; ++j)
      EXPECT_EQ(y[row * 40 + j], table[static_cast<std::size_t>(ids[row]) * 40 + j] + places[j]);
  }
  for (const auto& machine : machines()) {
    HostTensor made({18, 40}), d_made = before, more_made = before;
    run(*machine->ops, made, d_made, more_made);
    EXPECT_EQ(different_bits(made.values(), y.values()), 0U) << machine->name;
    EXPECT_LE(distance(d_made.values(), d.values()), 1e-6) << machine->name;
    EXPECT_LE(distance(more_made.values(), more.values()), 1e-6) << machine->name;
  }
}

}  // namespace
}  // namespace lockstep::test
