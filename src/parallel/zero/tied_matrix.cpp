#include "parallel/zero/tied_matrix.h"

#include <algorithm>
#include <span>

#include "base/checked.h"

namespace lockstep::parallel {

TiedMatrix::TiedMatrix(const Shape& shape, std::int64_t tokens, comm::Communicator& group, ops::Ops& ops)
    : vocabulary_(shape.rows()),
      width_(shape.last()),
      tokens_(tokens),
      group_(group),
      ops_(ops),
      seen_(static_cast<std::size_t>(vocabulary_)) {}

void TiedMatrix::declare(Arena& gradients, Arena& activations, Arena& workspace) {
  const std::int64_t most = std::min(vocabulary_, tokens_ * group_.size());
  activations.declare(rows_, "embedded rows", Shape{vocabulary_, width_}, DType::f32);
  workspace.declare(listed_, "embedded rows by number", Shape{most}, DType::i32);
  if (!alone()) gradients.declare(packed_, "embedded rows under way", Shape{most, width_}, DType::f32);
}

void TiedMatrix::begin() {
  if (used_) ops_.elementwise().zero(rows_);
  used_ = false;
  std::ranges::fill(seen_, 0);
}

void TiedMatrix::expect(const Tensor& tokens) {
  for (const std::int32_t token : elements<std::int32_t>(tokens)) seen_[static_cast<std::size_t>(token)] = 1;
}

const Tensor& TiedMatrix::open_rows() {
  used_ = true;
  return rows_;
}

void TiedMatrix::list_rows() {
  const std::span<std::int32_t> listed = elements<std::int32_t>(listed_.host);
  std::size_t count = 0;
  for (std::size_t row = 0; row < seen_.size(); ++row) {
    if (seen_[row] == 0) continue;
    ensure(count < listed.size(), "a step reads the tokens that the tied matrix was made for");
    listed[count++] = static_cast<std::int32_t>(row);
  }
  count_ = static_cast<std::int64_t>(count);
  upload(ops_.stream(), listed_.flat(0, count_));
}

void TiedMatrix::reduce_rows() {
  used_ = false;  // each row is set to zero where it is taken
  if (alone()) return list_rows();
  group_.host().all_reduce(view(std::span(seen_), Shape{vocabulary_}), comm::Reduction::max).wait();
  list_rows();
  const Tensor packed = packed_.slice_rows(0, count_);
  ops_.embedding().take_rows(packed, rows_, listed_.device.flat(0, count_));
  group_.all_reduce(packed, comm::Reduction::sum).join(ops_.stream());
}

void TiedMatrix::add_rows(const Tensor& h, std::int64_t first) {
  const std::int64_t last = std::min(first + h.elements(), vocabulary_ * width_);
  const std::int64_t first_row = div_up(first, width_), last_row = last / width_;
  if (first_row > last_row) return add_part(h, first, {first, last});
  add_part(h, first, {first, first_row * width_});
  add_whole(h, first, {first_row, last_row});
  add_part(h, first, {last_row * width_, last});
}

void TiedMatrix::add_part(const Tensor& h, std::int64_t origin, Span range) {
  if (range.first >= range.last) return;
  const std::int64_t row = range.first / width_;
  if (seen_[static_cast<std::size_t>(row)] == 0) return;
  const std::span<const std::int32_t> listed = elements<std::int32_t>(listed_.host.flat(0, count_));
  const std::int64_t place = alone() ? row : std::ranges::lower_bound(listed, static_cast<std::int32_t>(row)) - listed.begin();
  const std::int64_t count = range.last - range.first;
  const Tensor part = (alone() ? rows_ : packed_).flat(place * width_ + range.first % width_, count);
  ops_.elementwise().add(h.flat(range.first - origin, count), part);
  if (alone()) ops_.elementwise().zero(part);
}

void TiedMatrix::add_whole(const Tensor& h, std::int64_t origin, Span range) {
  const std::span<std::int32_t> listed = elements<std::int32_t>(listed_.host.flat(0, count_));
  const auto row_number = [](std::int64_t row) { return static_cast<std::int32_t>(row); };
  const std::int64_t begin = std::ranges::lower_bound(listed, row_number(range.first)) - listed.begin();
  const std::int64_t end = std::ranges::lower_bound(listed, row_number(range.last)) - listed.begin();
  if (begin == end) return;
  const std::int64_t rows = range.last - range.first;
  const Tensor to = h.flat(range.first * width_ - origin, rows * width_).reshape(Shape{rows, width_});
  const Mirror numbers = listed_.flat(begin, end - begin);
  const auto shift = [&](std::int64_t by) {  // the operations count rows from the first of theirs
    if (by == 0) return;
    settle(ops_.stream(), numbers);
    for (std::int32_t& row : elements<std::int32_t>(numbers.host)) row += row_number(by);
    upload(ops_.stream(), numbers);
  };
  shift(-range.first);
  if (alone()) {
    ops_.embedding().add_rows(to, rows_.slice_rows(range.first, rows), numbers.device);
  } else {
    ops_.embedding().backward_tokens(to, packed_.slice_rows(begin, end - begin), numbers.device);
  }
  shift(range.first);
}

}  // namespace lockstep::parallel
