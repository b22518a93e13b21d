#include "parallel/zero/tied_matrix.h"

#include <algorithm>
#include <span>

#include "base/checked.h"

namespace lockstep::parallel {

void TiedMatrixMemory::declare(const GradientArenas& arenas, const TiedSizes& sizes) {
  shape = sizes.shape;
  side = sizes.side;
  const std::int64_t most = std::min(shape.rows(), sizes.tokens * sizes.ranks);
  if (side != TiedSide::head) arenas.activations.declare(rows, "embedded rows", shape, DType::f32);
  arenas.workspace.declare(listed, "embedded rows by number", Shape{most}, DType::i32);
  if (sizes.ranks > 1 || side != TiedSide::both)
    arenas.gradients.declare(packed, "embedded rows under way", Shape{most, shape.last()}, DType::f32);
}

TiedMatrix::TiedMatrix(const TiedMatrixMemory& memory, comm::Communicator& group, ops::Ops& ops, const TiedPartner& partner,
                       std::int64_t first_token)
    : memory_(memory),
      group_(group),
      ops_(ops),
      partner_(partner),
      first_token_(first_token),
      seen_(static_cast<std::size_t>(vocabulary())) {
  ensure((memory.side == TiedSide::both) == (partner.pipeline == nullptr), "the part that is not made here is a partner's");
  ensure(alone() == (memory.packed.shape.rank() == 0), "a tied matrix has memory for rows to travel in where they do");
}

void TiedMatrix::begin() {
  if (used_) ops_.elementwise().zero(memory_.rows);
  used_ = false;
  std::ranges::fill(seen_, 0);
}

void TiedMatrix::expect(const Tensor& tokens) {
  for (const std::int32_t token : elements<std::int32_t>(tokens)) {
    const std::int64_t row = token - first_token_;
    if (row >= 0 && row < vocabulary()) seen_[static_cast<std::size_t>(row)] = 1;
  }
}

const Tensor& TiedMatrix::open_rows() {
  ensure(memory_.side != TiedSide::head, "rows are embedded where the embedding is");
  used_ = true;
  return memory_.rows;
}

void TiedMatrix::list_rows() {
  const std::span<std::int32_t> listed = elements<std::int32_t>(memory_.listed.host);
  std::size_t count = 0;
  for (std::size_t row = 0; row < seen_.size(); ++row) {
    if (seen_[row] == 0) continue;
    ensure(count < listed.size(), "a step reads the tokens that the tied matrix was made for");
    listed[count++] = static_cast<std::int32_t>(row);
  }
  count_ = static_cast<std::int64_t>(count);
  upload(ops_.stream(), memory_.listed.flat(0, count_));
}

void TiedMatrix::reduce_rows() {
  used_ = false;  // each row is set to zero where it is taken
  if (alone()) return list_rows();
  group_.host().all_reduce(view(std::span(seen_), Shape{vocabulary()}), comm::Reduction::max).wait();
  list_rows();
  if (memory_.side == TiedSide::head) return;
  const Tensor packed = memory_.packed.slice_rows(0, count_);
  ops_.embedding().take_rows(packed, memory_.rows, memory_.listed.device.flat(0, count_));
  group_.moving(comm::Purpose::gradients).all_reduce(packed, comm::Reduction::sum).join(ops_.stream());
}

void TiedMatrix::exchange(const Tensor& h) {
  if (memory_.side == TiedSide::both) return;
  const Tensor packed = memory_.packed.slice_rows(0, count_);
  const bool embeds = memory_.side == TiedSide::embedding;
  comm::Communicator& pipeline = *partner_.pipeline;
  comm::Request sent = pipeline.moving(comm::Purpose::gradients).send(embeds ? packed : h, partner_.rank);
  pipeline.moving(comm::Purpose::gradients).receive(embeds ? h : packed, partner_.rank).wait();
  sent.wait();
}

void TiedMatrix::add_rows(const Tensor& h, std::int64_t first) {
  const std::int64_t last = std::min(first + h.elements(), vocabulary() * width());
  const std::int64_t first_row = div_up(first, width()), last_row = last / width();
  if (first_row > last_row) return add_part(h, first, {first, last});
  add_part(h, first, {first, first_row * width()});
  add_whole(h, first, {first_row, last_row});
  add_part(h, first, {last_row * width(), last});
}

void TiedMatrix::add_part(const Tensor& h, std::int64_t origin, Span range) {
  if (range.first >= range.last) return;
  const std::int64_t row = range.first / width();
  if (seen_[static_cast<std::size_t>(row)] == 0) return;
  const std::span<const std::int32_t> listed = elements<std::int32_t>(memory_.listed.host.flat(0, count_));
  const std::int64_t place = alone() ? row : std::ranges::lower_bound(listed, static_cast<std::int32_t>(row)) - listed.begin();
  const std::int64_t count = range.last - range.first;
  const Tensor part = (alone() ? memory_.rows : memory_.packed).flat(place * width() + range.first % width(), count);
  ops_.elementwise().add(h.flat(range.first - origin, count), part);
  if (alone()) ops_.elementwise().zero(part);
}

void TiedMatrix::add_whole(const Tensor& h, std::int64_t origin, Span range) {
  const std::span<std::int32_t> listed = elements<std::int32_t>(memory_.listed.host.flat(0, count_));
  const auto row_number = [](std::int64_t row) { return static_cast<std::int32_t>(row); };
  const std::int64_t begin = std::ranges::lower_bound(listed, row_number(range.first)) - listed.begin();
  const std::int64_t end = std::ranges::lower_bound(listed, row_number(range.last)) - listed.begin();
  if (begin == end) return;
  const std::int64_t rows = range.last - range.first;
  const Tensor to = h.flat(range.first * width() - origin, rows * width()).reshape(Shape{rows, width()});
  const Mirror numbers = memory_.listed.flat(begin, end - begin);
  const auto shift = [&](std::int64_t by) {  // the operations count rows from the first of theirs
    if (by == 0) return;
    settle(ops_.stream(), numbers);
    for (std::int32_t& row : elements<std::int32_t>(numbers.host)) row += row_number(by);
    upload(ops_.stream(), numbers);
  };
  shift(-range.first);
  if (alone()) {
    ops_.embedding().add_rows(to, memory_.rows.slice_rows(range.first, rows), numbers.device);
  } else {
    ops_.embedding().backward_tokens(to, memory_.packed.slice_rows(begin, end - begin), numbers.device);
  }
  shift(range.first);
}

}  // namespace lockstep::parallel
