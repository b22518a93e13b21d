#include "layout/whole_matrices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>

namespace lockstep::layout {
namespace {

bool is_matrix(const ParameterInfo& info) { return info.role == 1; }

/// Six heads of which three share a key/value head, columns that are cut, rows of two kinds, and what is no matrix.
std::vector<Unit> units_of(TensorRank tensor) {
  const ShardRule heads{0,
                        {{.pieces = 6, .size = 5}, {.pieces = 2, .size = 5, .users = 3}, {.pieces = 2, .size = 5, .users = 3}}};
  const ShardRule features{0, {{.pieces = 44}, {.pieces = 44}}};
  std::vector<Unit> units;
  for (int block = 0; block < 3; ++block) {
    units.push_back(make_unit("h",
                              {{"qkv", Shape{50, 23}, true, 1, heads},
                               {"out", Shape{23, 30}, true, 1, {1, {{.pieces = 6, .size = 5}}}},
                               {"gain", Shape{23}, false, 0},
                               {"up", Shape{88, 23}, true, 1, features},
                               {"down", Shape{23, 44}, true, 1, {1, {{.pieces = 44}}}},
                               {"table", Shape{40, 23}, true, 0, {0, {{.pieces = 40}}}},
                               {"whole", Shape{9, 7}, true, 1}},
                              tensor));
  }
  units.push_back(make_unit("frozen", {{"a", Shape{9, 7}, true, 1}}, tensor));
  units.back().trained = false;
  return units;
}

std::vector<std::vector<Unit>> units_of(const ParallelPlan& plan) {
  std::vector<std::vector<Unit>> all;
  for (int rank = 0; rank < plan.tp; ++rank) all.push_back(units_of(TensorRank{rank, plan.tp}));
  return all;
}

/// A number for an element of a parameter, no other's.
double value_of(int unit, const std::string& name, std::int64_t element) {
  return (unit * 10 + static_cast<int>(name.size()) + name[0] % 7 * 100) * 1e5 + static_cast<double>(element);
}

/// All numbers of a rank's unit by their place in its flat buffer.
std::vector<double> numbers_of(int number, const Unit& unit) {
  std::vector<double> all(static_cast<std::size_t>(unit.elements), -1);
  for (const PlacedParameter& placed : unit.parameters) {
    for (const Rectangle& r : placed.shard.rectangles({0, placed.shape().elements()})) {
      for (std::int64_t i = 0; i < r.rows * r.columns; ++i) {
        all[static_cast<std::size_t>(placed.offset + r.local + i)] =
            value_of(number, placed.info.name, r.global + i / r.columns * r.stride + i % r.columns);
      }
    }
  }
  return all;
}

std::vector<double> message_of(const MatrixMessage& message, const MatrixPlan& plan, const std::vector<Unit>& units) {
  std::vector<double> all;
  for (const MatrixPart& part : message.parts) {
    const int unit = plan.matrices[static_cast<std::size_t>(part.matrix)].unit;
    const std::vector<double> numbers = numbers_of(unit, units[static_cast<std::size_t>(unit)]);
    EXPECT_EQ(std::ssize(all), part.place);
    for (std::int64_t i = part.elements.first; i < part.elements.end(); ++i) all.push_back(numbers[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(std::ssize(all), message.elements);
  return all;
}

/// Sends what `message` says from all to all: by rank, what it gets.
using Messages = std::vector<std::vector<double>>;
template <class Counts>
Messages exchanged(const Messages& sent, const Counts& counts_of) {
  Messages got(sent.size());
  for (std::size_t from = 0; from < sent.size(); ++from) {
    auto next = sent[from].begin();
    for (std::size_t to = 0; to < sent.size(); ++to) {
      const std::int64_t count = counts_of(from)[to];
      got[to].insert(got[to].end(), next, next + count);
      next += count;
    }
    EXPECT_EQ(next, sent[from].end());
  }
  return got;
}

void for_elements(const MatrixPiece& piece, std::int64_t columns, const std::function<void(std::int64_t, std::size_t)>& use) {
  for (std::int64_t i = 0; i < piece.rows * piece.columns; ++i) {
    const std::int64_t row = piece.row + i / piece.columns, column = piece.column + i % piece.columns;
    use(row * columns + column, static_cast<std::size_t>(piece.place + i));
  }
}

/// Every matrix comes together at its owner, each element once, and goes back to all that hold it.
void expect_round_trip(const ParallelPlan& plan, CutOver cut) {
  const Mesh mesh(plan);
  const std::vector<std::vector<Unit>> units = units_of(plan);
  std::vector<MatrixPlan> plans;
  Messages sent, held;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    plans.push_back(matrix_plan(mesh, rank, units, cut, is_matrix));
    const std::vector<Unit>& own = units[static_cast<std::size_t>(mesh.coordinates(rank).tp)];
    sent.push_back(message_of(plans.back().own, plans.back(), own));
    held.push_back(message_of(plans.back().held, plans.back(), own));
  }
  const Messages arrived = exchanged(sent, [&](std::size_t r) { return plans[r].own.counts; });
  Messages left;
  std::size_t owned = 0;
  for (std::size_t r = 0; r < plans.size(); ++r) {
    const MatrixPlan& mine = plans[r];
    owned += mine.owned.size();
    std::map<int, std::vector<double>> whole;
    for (const int m : mine.owned)
      whole[m].assign(static_cast<std::size_t>(mine.matrices[static_cast<std::size_t>(m)].elements()), -1);
    for (const MatrixPiece& piece : mine.arriving) {
      for_elements(piece, mine.matrices[static_cast<std::size_t>(piece.matrix)].columns, [&](std::int64_t to, std::size_t from) {
        double& element = whole.at(piece.matrix)[static_cast<std::size_t>(to)];
        EXPECT_EQ(element, -1);
        element = arrived[r][from];
      });
    }
    std::vector<double>& back = left.emplace_back();
    for (const auto& [m, values] : whole) {
      const WholeMatrix& matrix = mine.matrices[static_cast<std::size_t>(m)];
      const Unit& unit = units.front()[static_cast<std::size_t>(matrix.unit)];
      const std::string& name = unit.parameters[static_cast<std::size_t>(matrix.parameter)].info.name;
      for (std::int64_t i = 0; i < matrix.elements(); ++i)
        EXPECT_EQ(values[static_cast<std::size_t>(i)], value_of(matrix.unit, name, matrix.first + i)) << name;
    }
    for (const MatrixPiece& piece : mine.leaving) {
      back.resize(std::max(back.size(), static_cast<std::size_t>(piece.place + piece.rows * piece.columns)));
      for_elements(piece, mine.matrices[static_cast<std::size_t>(piece.matrix)].columns,
                   [&](std::int64_t from, std::size_t to) { back[to] = whole.at(piece.matrix)[static_cast<std::size_t>(from)]; });
    }
  }
  EXPECT_EQ(owned, static_cast<std::size_t>(plan.pp) * plans.front().matrices.size());
  EXPECT_EQ(exchanged(left, [&](std::size_t r) { return plans[r].leaving_counts; }), held);
}

TEST(WholeMatrices, ComeTogetherAtTheirOwnersAndGoBack) {
  for (const ParallelPlan& plan :
       {ParallelPlan{}, ParallelPlan{.dp = 2}, ParallelPlan{.dp = 3, .tp = 2}, ParallelPlan{.tp = 4}, ParallelPlan{.tp = 5},
        ParallelPlan{.dp = 2, .tp = 2, .cp = 2}, ParallelPlan{.dp = 2, .tp = 3, .pp = 2}, ParallelPlan{.dp = 40}}) {
    for (const CutOver cut : {CutOver::none, CutOver::all}) {
      SCOPED_TRACE(testing::Message() << plan.dp << " " << plan.tp << " " << plan.cp << " " << (cut == CutOver::all));
      expect_round_trip(plan, cut);
    }
  }
  expect_round_trip({.dp = 4, .tp = 2, .ranks_per_host = 4}, CutOver::host);
}

TEST(WholeMatrices, GroupsOfRowsAreMatricesOfTheirOwn) {
  const std::vector<WholeMatrix> all = whole_matrices(units_of(TensorRank{}), is_matrix);
  ASSERT_EQ(all.size(), 3U * 8) << "q, k, v, out, two of up, down, whole";
  const std::vector<std::pair<std::int64_t, std::int64_t>> shapes{{30, 23}, {10, 23}, {10, 23}, {23, 30},
                                                                  {44, 23}, {44, 23}, {23, 44}, {9, 7}};
  for (std::size_t m = 0; m < shapes.size(); ++m) EXPECT_EQ(std::pair(all[m].rows, all[m].columns), shapes[m]) << m;
  EXPECT_EQ(all[2].first, 40 * 23);
}

TEST(WholeMatrices, CostlyOnesAreSharedOutFirst) {
  std::vector<WholeMatrix> all(5);
  for (std::size_t m = 0; m < all.size(); ++m) all[m].rows = all[m].columns = std::array{10, 30, 20, 30, 20}[m];
  share_out(all, 4, 2);
  const auto owner = [&](std::size_t m) { return all[m].owner; };
  EXPECT_EQ(owner(1), 4);
  EXPECT_EQ(owner(3), 5);
  EXPECT_EQ(owner(2), 4);
  EXPECT_EQ(owner(4), 5);
  EXPECT_EQ(owner(0), 4);
}

}  // namespace
}  // namespace lockstep::layout
