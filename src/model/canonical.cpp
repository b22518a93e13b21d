#include "model/canonical.h"

#include "base/sum_tree.h"
#include "layout/canonical_grid.h"

namespace lockstep::model {
namespace {

using layout::Range;

ops::IndexRun run_of(const Range& range, std::int64_t begin, std::int64_t size = 1) {
  return {begin + range.first * size, range.count * size};
}

Range behind(const Range& range, std::int64_t first) { return {range.first - first, range.count}; }

/// The key/value heads whose first query head is among `heads`, `group` of which share one.
Range kv_of(const Range& heads, std::int64_t group) {
  const std::int64_t first = (heads.first + group - 1) / group;
  return {first, (heads.end() + group - 1) / group - first};
}

}  // namespace

Canonical::Canonical(const arch::ModelConfig& config, const layout::ShardedDims& dims, const CanonicalSizes& sizes)
    : sizes_(sizes),
      first_range_(layout::canonical_ranges / dims.vocabulary_parts * dims.vocabulary_part),
      width_(dims.width),
      vocabulary_(dims.vocabulary),
      table_rows_(config.position == arch::PositionKind::learned ? config.block_size : 0) {
  ensure(layout::canonical_ranges % dims.vocabulary_parts == 0, "tensor ranks divide the ranges evenly");
  ensure(layout::canonical_ranges % sizes.all_microbatches == 0, "micro-batches divide the ranges evenly");
  const std::int64_t first_feature = layout::part_of(config.ffn_width, dims.vocabulary_part, dims.vocabulary_parts).first;
  for (int i = first_range_; i < first_range_ + layout::canonical_ranges / dims.vocabulary_parts; ++i) {
    const Range query = layout::canonical_range(config.heads, i);
    const Range own = behind(query, dims.first_head), kv = behind(kv_of(query, dims.heads_per_kv), dims.first_kv_head);
    heads.ranges.push_back({run_of(own, 0, dims.head_size)});
    qkv.ranges.push_back({run_of(own, 0, dims.head_size), run_of(kv, dims.attention_width(), dims.head_size),
                          run_of(kv, dims.attention_width() + dims.kv_width(), dims.head_size)});
    const Range feature = behind(layout::canonical_range(config.ffn_width, i), first_feature);
    features.ranges.push_back({run_of(feature, 0)});
    up.ranges.push_back({run_of(feature, 0)});
    if (dims.gated) up.ranges.back().push_back(run_of(feature, dims.ffn_width));
    vocabulary.ranges.push_back({run_of(behind(layout::canonical_range(config.vocabulary, i), dims.first_token), 0)});
  }
  const int of_samples = layout::canonical_ranges / sizes.all_microbatches;
  const auto& [samples, positions] = sizes.tokens;
  for (int m = 0; m < sizes.microbatches; ++m) {
    for (int i = 0; i < of_samples; ++i) {
      const Range range = layout::part_of(samples, i, of_samples);
      if (m == 0) tokens.ranges.push_back({run_of(range, 0, positions)});
      step_tokens.ranges.push_back({run_of(range, m * sizes.tokens.rows(), positions)});
    }
  }
  ranges_ = std::int64_t{of_samples} * layout::canonical_ranges;
}

void Canonical::declare(Arena& gradients, Arena& workspace, DType type, bool embedding, bool head) {
  workspace.declare(partials_, "sums of ranges", Shape{2, ranges_, width_}, DType::f32);
  const auto places = static_cast<std::size_t>(places_of_tree(sample_ranges())) - 1;
  if (head) {
    head_places_.resize(places);
    for (Tensor& place : head_places_) gradients.declare(place, "ranges of the head", Shape{vocabulary_ * width_}, DType::f32);
  }
  if (!embedding) return;
  if (table_rows_ > 0) {
    position_places_.resize(places);
    for (Tensor& place : position_places_)
      gradients.declare(place, "ranges of positions", Shape{table_rows_, width_}, DType::f32);
  }
  const std::int64_t rows = sizes_.microbatches * sizes_.tokens.rows();
  workspace.declare(rows_, "rows of tokens", Shape{rows, width_}, type);
  workspace.declare(row_tokens_, "tokens of rows", Shape{rows}, DType::i32);
  workspace.declare(order_, "order of tokens", Shape{2 * rows}, DType::i64);
}

template <class Visit>
void Canonical::for_ranges(const parallel::Boundary& boundary, const Visit& visit) const {
  const Range own = boundary.outside(sizes_.tokens).positions;
  std::int64_t number = 0;
  for (const std::vector<ops::IndexRun>& range : tokens.ranges) {
    const std::int64_t positions = sizes_.tokens.positions;
    const Range samples{range.front().first / positions, range.front().count / positions};
    for (int i = 0; i < layout::canonical_ranges; ++i, ++number) {
      const Range part = layout::overlap(layout::canonical_range(positions, i), own);
      for (std::int64_t sample = samples.first; sample < samples.end() && part.count > 0; ++sample)
        visit(number, sample * own.count + part.first - own.first, part.count, sample > samples.first);
    }
  }
}

Tensor Canonical::cleared(ops::Ops& ops, std::int64_t count) const {
  const Tensor partials = partials_.flat(0, count * ranges_ * width_);
  ops.elementwise().zero(partials);
  return partials.reshape(Shape{count * ranges_, width_});
}

// Ranks that have nothing of a range add zeros. In a matrix of rows of neighbours a column slice has every second one.
void Canonical::add_up(ops::Ops& ops, parallel::Boundary& boundary, const Tensor& partials) const {
  if (boundary.kind() == parallel::BoundaryKind::splitting) boundary.add_up(partials).wait();
  for (std::int64_t apart = 1; apart < ranges_; apart *= 2) {
    const Tensor pairs = partials.reshape(Shape{partials.rows() / (2 * apart), 2 * apart * width_});
    ops.elementwise().add(pairs.slice_columns(0, width_), pairs.slice_columns(apart * width_, width_));
  }
}

void Canonical::norm_backward(ops::Ops& ops, ops::Norm& norm, parallel::Boundary& boundary, const ops::NormBackward& call) const {
  const Tensor partials = cleared(ops, call.d_bias ? 2 : 1);
  for_ranges(boundary, [&](std::int64_t range, std::int64_t first, std::int64_t count, bool begun) {
    const auto rows = [&](const Tensor& of) { return of ? of.slice_rows(first, count) : Tensor{}; };
    const auto sums = [&](std::int64_t number) { return partials.flat((number * ranges_ + range) * width_, width_); };
    ops::NormBackward part = call;
    for (Tensor* tensor : {&part.dx, &part.n, &part.dn, &part.x, &part.stats, &part.residual}) *tensor = rows(*tensor);
    part.d_gain = sums(0);
    if (call.d_bias) part.d_bias = sums(1);
    part.accumulate = begun;
    norm.backward(part);
  });
  add_up(ops, boundary, partials);
  ops.elementwise().cast(call.d_gain, partials.flat(0, width_));
  if (call.d_bias) ops.elementwise().cast(call.d_bias, partials.flat(ranges_ * width_, width_));
}

// The sum of rows is that of a table of one position.
void Canonical::sum_rows(ops::Ops& ops, parallel::Boundary& boundary, const Tensor& sum, const Tensor& rows) const {
  const Tensor partials = cleared(ops, 1);
  for_ranges(boundary, [&](std::int64_t range, std::int64_t first, std::int64_t count, bool begun) {
    ops.embedding().backward_positions(partials.slice_rows(range, 1), rows.slice_rows(first, count), {0, 1}, begun);
  });
  add_up(ops, boundary, partials);
  ops.elementwise().cast(sum, partials.flat(0, width_));
}

void Canonical::sum_positions(ops::Ops& ops, const Tensor& d_table, const Tensor& dy, const ops::Positions& positions,
                              const Tensor& starts) const {
  const auto place = [&](int number) { return number == 0 ? d_table : position_places_[static_cast<std::size_t>(number) - 1]; };
  for (int range = 0; range < sample_ranges(); ++range) {
    const ops::IndexRun& run = tokens.ranges[static_cast<std::size_t>(range)].front();
    const std::int64_t first = run.first / positions.count(), samples = run.count / positions.count();
    ops.embedding().backward_positions(place(place_in_tree(range)), dy.slice_rows(run.first, run.count), positions, false,
                                       starts ? starts.slice_rows(first, samples) : Tensor{});
    merge_behind(range, [&](int to, int from) { ops.elementwise().add(place(to), place(from)); });
  }
}

void Canonical::add_tokens(ops::Ops& ops, const Tensor& d_tokens, const Tensor& dy, const Tensor& ids, std::int64_t first_token,
                           int microbatch) const {
  const std::int64_t rows = sizes_.tokens.rows(), first = microbatch * rows;
  ops.elementwise().cast(rows_.slice_rows(first, rows), dy);
  copy(ops.stream(), row_tokens_.flat(first, rows), ids);
  if (microbatch + 1 == sizes_.microbatches)
    ops.embedding().backward_tokens(d_tokens, rows_, row_tokens_, first_token, step_tokens, order_);
}

}  // namespace lockstep::model
