#include "model/attention/width_norm.h"

#include <array>

namespace lockstep::model {
namespace {

using arch::Role;
using layout::Range;

Tensor part(const Tensor& vector, const Range& range) { return vector.flat(range.first, range.count); }
Tensor columns_of(const Tensor& matrix, const Range& columns) { return matrix.slice_columns(columns.first, columns.count); }

/// The rank's columns of keys but for those of a head that the rank before it has too.
Range first_held(const layout::ShardedDims& dims) {
  const std::int64_t shared = dims.first_head % dims.heads_per_kv != 0 ? 1 : 0;
  return {shared * dims.head_size, (dims.kv_heads - shared) * dims.head_size};
}

/// make(range, its place [rows]) for each range; nothing is summed of an empty one.
template <class Make>
void for_ranges(ops::Ops& ops, const std::vector<Range>& ranges, const Tensor& sums, const Range& rows, const Make& make) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const Tensor place = sums.flat(static_cast<std::int64_t>(i) * sums.columns() + rows.first, rows.count);
    ranges[i].count > 0 ? make(ranges[i], place) : ops.elementwise().zero(place);
  }
}

}  // namespace

// In canonical mode the gradient of a shared key/value head is complete on each rank that has it. Otherwise each has made a part,
// so all parts count in the mean product, and one rank takes that away.
WidthNorm::WidthNorm(const Context& context)
    : context_(context),
      queries_{.gain = Role::query_gain,
               .features = context.config.heads * context.config.head_size,
               .columns = {0, context.dims.attention_width()},
               .squares = {},
               .products = {}},
      keys_{.gain = Role::key_gain,
            .features = context.config.kv_heads * context.config.head_size,
            .columns = {context.dims.attention_width(), context.dims.kv_width()},
            .squares = {},
            .products = {}} {
  for (Side* side : {&queries_, &keys_}) side->complete = {0, side->columns.count};
  const std::vector<std::vector<ops::IndexRun>>& ranges = context.sums.qkv.ranges;
  if (ranges.empty()) {
    queries_.squares = queries_.products = {queries_.complete};
    keys_.products = {keys_.complete};
    keys_.complete = first_held(context.dims);
    keys_.squares = {keys_.complete};
  }
  for (const std::vector<ops::IndexRun>& range : ranges) {
    queries_.squares.push_back({range[0].first, range[0].count});
    keys_.squares.push_back({range[1].first - keys_.columns.first, range[1].count});
    queries_.products = queries_.squares;
    keys_.products = keys_.squares;
  }
}

Tensor WidthNorm::sums(const Scratch& scratch, std::int64_t rows) const {
  const std::int64_t ranges = std::ssize(queries_.squares);
  return scratch.width_sums.flat(0, ranges * 2 * rows).reshape(Shape{ranges, 2 * rows});
}

Range WidthNorm::places(const Side& side, std::int64_t rows) const { return {&side == &keys_ ? rows : 0, rows}; }

Tensor WidthNorm::added_up(const Tensor& sums) const {
  const std::int64_t rows = sums.columns();
  for (std::int64_t apart = 1; apart < sums.rows(); apart *= 2) {
    const Tensor pairs = sums.reshape(Shape{sums.rows() / (2 * apart), 2 * apart * rows});
    context_.ops.elementwise().add(pairs.slice_columns(0, rows), pairs.slice_columns(apart * rows, rows));
  }
  const Tensor all = sums.flat(0, rows);
  parallel::Boundary& boundary = *context_.boundaries.attention;
  if (boundary.kind() != parallel::BoundaryKind::local) boundary.add_up(all).wait();
  return all;
}

void WidthNorm::forward(const LayerWeights& w, const BlockSaved& saved, const Tensor& qkv, const Scratch& scratch) const {
  ops::SplitNorm& norm = context_.ops.split_norm();
  const std::int64_t rows = qkv.rows();
  const Tensor sums = this->sums(scratch, rows), to = saved.qk.slice_rows(0, rows);
  for (const Side* side : {&queries_, &keys_}) {
    const Tensor from = columns_of(qkv, side->columns);
    for_ranges(context_.ops, side->squares, sums, places(*side, rows),
               [&](const Range& range, const Tensor& place) { norm.squares(place, columns_of(from, range)); });
  }
  const Tensor whole = added_up(sums);
  for (const Side* side : {&queries_, &keys_}) {
    const Range place = places(*side, rows);
    norm.forward(columns_of(to, side->columns), part(saved.qk_stats, place), columns_of(qkv, side->columns), w[side->gain],
                 part(whole, place), side->features, context_.config.norm_eps);
  }
}

void WidthNorm::backward(const Pass& pass, const LayerWeights& w, const Gradients& gradients, const BlockSaved& saved,
                         const Tensor& d_qkv, const Scratch& scratch) const {
  ops::SplitNorm& norm = context_.ops.split_norm();
  const std::int64_t rows = d_qkv.rows();
  const Tensor sums = this->sums(scratch, rows);
  const auto x_of = [&](const Side& side) { return columns_of(saved.qkv.slice_rows(0, rows), side.columns); };
  for (const Side* side : {&queries_, &keys_}) {
    const Tensor x = x_of(*side), d = columns_of(d_qkv, side->columns), rstd = part(saved.qk_stats, places(*side, rows));
    for_ranges(context_.ops, side->products, sums, places(*side, rows), [&](const Range& range, const Tensor& place) {
      norm.dots(place, columns_of(d, range), columns_of(x, range), rstd, part(w[side->gain], range));
    });
    if (const Tensor& d_gain = gradients.set[side->gain])
      context_.sums.width_gain(norm, pass,
                               {.d = d, .x = x, .rstd = rstd, .d_gain = d_gain, .accumulate = gradients.set.accumulate});
  }
  const Tensor all = added_up(sums);
  for (const Side* side : {&queries_, &keys_}) {
    const Tensor x = x_of(*side), d = columns_of(d_qkv, side->columns);
    const auto go_back = [&](const Range& range, const Tensor& dots) {
      if (range.count == 0) return;
      const Tensor to = columns_of(d, range);
      norm.backward(to, to, columns_of(x, range), part(saved.qk_stats, places(*side, rows)), part(w[side->gain], range), dots,
                    side->features);
    };
    go_back({0, side->complete.first}, {});
    go_back(side->complete, part(all, places(*side, rows)));
  }
}

}  // namespace lockstep::model
