#pragma once

// Helpers of the tables of wrong ways: when a way is tried and with which values, and which rank has a position.

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "lab/against/tape.h"
#include "lab/against/ways.h"

namespace lockstep::lab::against {

using List = std::vector<double>;

inline List once(const Case& /*unused*/) { return {0}; }
inline List when(bool holds, List list = {0}) { return holds ? std::move(list) : List{}; }
/// The numbers of ranks or of micro-batches; none where there is only one.
inline auto each(double Facts::* size) {
  return [size](const Case& c) {
    List list(static_cast<std::size_t>(std::min(c.facts.*size, 64.0)));  // more are not told apart in a dump that is judged soon
    std::iota(list.begin(), list.end(), 0.0);
    return when(list.size() > 1, list);
  };
}
/// A way that each rank of a dimension may follow with the value of its own number.
inline Way by_rank(Dimension rank, std::string word, std::string sentence, std::function<void(Case&, double)> change,
                   Scope scope = Scope::step) {
  constexpr std::array<double Facts::*, 4> sizes{&Facts::dp, &Facts::tp, &Facts::cp, &Facts::pp};
  return {std::move(word), std::move(sentence), each(sizes.at(rank)), std::move(change), {}, rank, scope};
}
inline auto size_of(double Facts::* size) {
  return [size](const Case& c) { return when(c.facts.*size > 1, {c.facts.*size}); };
}
inline List others(List list, double value) {
  std::erase_if(list, [value](double one) { return std::abs(one - value) <= 1e-6 * value; });
  return list;
}
/// The number of the micro-batch that a row is in. Micro-batches of all ranks are counted, those of dp rank 0 first.
inline double unit_of_row(const Case& c, std::int64_t row) {
  return std::floor(static_cast<double>(row) * c.facts.dp * c.facts.micro_batches / static_cast<double>(c.question.batch.rows));
}
inline double rank_of_row(const Case& c, std::int64_t row) { return std::floor(unit_of_row(c, row) / c.facts.micro_batches); }
inline double micro_of_row(const Case& c, std::int64_t row) { return std::fmod(unit_of_row(c, row), c.facts.micro_batches); }
/// The context rank of a position. Ranks have parts in order, or (`zigzag`) two chunks each, one from the front and one from the
/// end.
inline std::int64_t context_rank(const Case& c, std::int64_t t, bool zigzag) {
  const std::int64_t parts = static_cast<std::int64_t>(c.facts.cp) * (zigzag ? 2 : 1),
                     chunk = t * parts / c.question.batch.columns;
  return zigzag ? std::min(chunk, parts - 1 - chunk) : chunk;
}
/// The length of a context rank's chunk in zigzag.
inline std::int64_t chunk(const Case& c) { return c.question.batch.columns / (2 * static_cast<std::int64_t>(c.facts.cp)); }
inline List in_chunks(const Case& c) {
  return when(c.facts.cp > 1 && c.question.batch.columns % (2 * static_cast<std::int64_t>(c.facts.cp)) == 0);
}
inline List in_either_order(const Case& c) { return when(!in_chunks(c).empty(), {0, 1}); }
inline std::string order_name(double zigzag) { return zigzag == 0 ? "parts in order" : "a chunk from each end"; }

inline OnlyPart tensor_part(const Case& c, double number) {
  return {static_cast<std::int64_t>(number), static_cast<std::int64_t>(c.facts.tp)};
}

}  // namespace lockstep::lab::against
