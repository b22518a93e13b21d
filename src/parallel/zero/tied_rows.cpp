#include "parallel/zero/tied_rows.h"

#include <algorithm>

#include "base/error.h"

namespace lockstep::parallel {

TiedRows::TiedRows(std::int64_t vocabulary, std::int64_t width, std::int64_t tokens, comm::Communicator& group)
    : vocabulary_(vocabulary),
      width_(width),
      tokens_(tokens),
      group_(group),
      seen_(static_cast<std::size_t>(vocabulary)),
      counts_(static_cast<std::size_t>(group.size()), tokens) {}

void TiedRows::declare(Arena& gradients, Arena& activations, Arena& workspace) {
  activations.declare(table_, "embedded rows", Shape{vocabulary_, width_}, DType::f32);
  if (group_.size() == 1) return;
  const std::int64_t all = tokens_ * group_.size();
  gradients.declare(packed_, "embedded rows under way", Shape{std::min(vocabulary_, all), width_}, DType::f32);
  workspace.declare(all_tokens_, "tokens of all ranks", Shape{all}, DType::i32);
  workspace.declare(rows_, "embedded rows by token", Shape{std::min(vocabulary_, all)}, DType::i32);
}

// The rows that any rank has seen, in order: the same on every rank.
std::int64_t TiedRows::mark_rows() {
  std::ranges::fill(seen_, std::uint8_t{0});
  for (const std::int32_t token : elements<std::int32_t>(all_tokens_)) seen_[static_cast<std::size_t>(token)] = 1;
  const std::span<std::int32_t> rows = elements<std::int32_t>(rows_);
  std::size_t count = 0;
  for (std::size_t row = 0; row < seen_.size(); ++row) {
    if (seen_[row] != 0) rows[count++] = static_cast<std::int32_t>(row);
  }
  return static_cast<std::int64_t>(count);
}

void TiedRows::add_to(const Tensor& h, const Tensor& tokens, ops::Embedding& embedding) {
  if (group_.size() == 1) return embedding.add_rows(h, table_, tokens);
  ensure(tokens.elements() == tokens_, "a step has the tokens it was declared for");
  group_.all_gather(all_tokens_, tokens, counts_).wait();
  const std::int64_t count = mark_rows();
  const Tensor rows = rows_.flat(0, count), packed = packed_.slice_rows(0, count);
  embedding.take_rows(packed, table_, rows);
  group_.all_reduce(packed, comm::Reduction::sum).wait();
  embedding.backward_tokens(h, packed, rows);
}

}  // namespace lockstep::parallel
