#include "model/canonical.h"

#include <algorithm>

#include "base/sum_tree.h"
#include "layout/canonical_grid.h"
#include "model/context.h"

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

/// Zeros in all rows of a matrix but `range`.
void clear_around(ops::Ops& ops, const Tensor& matrix, const Range& range) {
  ops.elementwise().zero(matrix.slice_rows(0, range.first));
  ops.elementwise().zero(matrix.slice_rows(range.end(), matrix.rows() - range.end()));
}

/// The rows of a sample that have some of the positions `range`, of which a rank has all or neighbours.
Range rows_of(const Range& range, const ops::Positions& positions) {
  Range rows;
  for (const ops::PositionRun& run : positions.runs()) {
    const Range part = layout::overlap(range, {run.first, run.count});
    if (part.count == 0) continue;
    if (rows.count == 0) rows.first = positions.row_of(part.first);
    rows.count += part.count;
  }
  return rows;
}

}  // namespace

Canonical::Canonical(const arch::ModelConfig& config, const layout::ShardedDims& dims, const CanonicalSizes& sizes)
    : Sums(dims, {sizes.tokens.positions, sizes.context_rank, sizes.context_ranks}, {dims, config.kv_heads, sizes.context_ranks}),
      sizes_(sizes),
      table_rows_(config.position == arch::PositionKind::learned ? config.block_size : 0),
      all_heads_(config.heads) {
  ensure(layout::canonical_ranges % (dims.vocabulary_parts * sizes.context_ranks) == 0, "ranks divide the ranges evenly");
  ensure(layout::canonical_ranges % sizes.all_microbatches == 0, "micro-batches divide the ranges evenly");
  const std::int64_t first_feature = layout::part_of(config.ffn_width, dims.vocabulary_part, dims.vocabulary_parts).first;
  const int count = layout::canonical_ranges / dims.vocabulary_parts, first = count * dims.vocabulary_part;
  for (int i = first; i < first + count; ++i) {
    const Range query = layout::canonical_range(config.heads, i);
    const Range own = behind(query, dims.first_head), kv = behind(kv_of(query, dims.heads_per_kv), dims.first_kv_head);
    heads.ranges.push_back({run_of(own, 0, dims.head_size)});
    qkv.ranges.push_back({run_of(own, 0, dims.head_size), run_of(kv, dims.attention_width(), dims.head_size),
                          run_of(kv, dims.attention_width() + dims.kv_width(), dims.head_size)});
    const Range feature = behind(layout::canonical_range(config.ffn_width, i), first_feature);
    features.ranges.push_back({run_of(feature, 0)});
    up.ranges.push_back({run_of(feature, 0)});
    if (dims.gated) up.ranges.back().push_back(run_of(feature, dims.ffn_width));
  }
  take_vocabulary(config, first + static_cast<int>(samples.share(count).first), static_cast<int>(samples.share(count).count));
  const int of_samples = layout::canonical_ranges / sizes.all_microbatches;
  const std::int64_t positions = sizes.tokens.positions;
  for (int m = 0; m < sizes.microbatches; ++m) {
    for (int i = 0; i < of_samples; ++i) {
      const Range range = layout::part_of(sizes.tokens.samples, i, of_samples);
      if (m == 0) tokens.ranges.push_back({run_of(range, 0, positions)});
      step_tokens_.ranges.push_back({run_of(range, m * sizes.tokens.rows(), positions)});
    }
  }
  ranges_ = std::int64_t{of_samples} * layout::canonical_ranges;
}

void Canonical::take_vocabulary(const arch::ModelConfig& config, int first, int count) {
  const std::int64_t first_token = layout::canonical_range(config.vocabulary, first).first;
  judged = {first_token - dims_.first_token, 0};
  judgers.clear();
  all_judgers = layout::canonical_ranges;
  for (int i = first; i < first + count; ++i) {
    const Range range = layout::canonical_range(config.vocabulary, i);
    vocabulary.ranges.push_back({run_of(behind(range, first_token), 0)});
    judgers.push_back({i, range.first, range.count});
    judged.count += range.count;
  }
}

void Canonical::declare(Arena& gradients, Arena& workspace, DType type, bool embedding, bool head) {
  const std::int64_t width = dims_.width, microbatch = sizes_.tokens.rows();
  const std::int64_t widest = std::max(2 * width, dims_.qk_norm_whole ? dims_.attention_width() : 0);
  workspace.declare(partials_, "sums of ranges", Shape{ranges_, widest}, DType::f32);
  if (dims_.qk_norm && !dims_.qk_norm_whole) {
    const Shape sums{layout::canonical_ranges * ranges_ + 1, dims_.head_size};
    workspace.declare(head_sums_, "sums of ranges of heads", sums, DType::f32);
  }
  const std::int64_t own = parallel::split_positions(sizes_.tokens.positions, samples.rank(), samples.ranks()).count();
  keys.declare(workspace, sizes_.tokens.samples * own);
  if (samples.divided()) {
    samples.declare(workspace, microbatch, std::max({width, dims_.attention_width(), dims_.ffn_width}),
                    std::max({width, dims_.qkv_width(), dims_.up_width()}), type);
  }
  const auto places = static_cast<std::size_t>(places_of_tree(sample_ranges())) - 1;
  if (head) {
    head_places_.resize(places);
    for (Tensor& place : head_places_)
      gradients.declare(place, "ranges of the head", Shape{dims_.vocabulary * width}, DType::f32);
  }
  if (!embedding) return;
  if (table_rows_ > 0) {
    position_places_.resize(places);
    for (Tensor& place : position_places_) gradients.declare(place, "ranges of positions", Shape{table_rows_, width}, DType::f32);
  }
  const std::int64_t rows = sizes_.microbatches * microbatch;
  workspace.declare(rows_, "rows of tokens", Shape{rows, samples.share(width).count}, type);
  workspace.declare(step_ids, "tokens of rows", Shape{rows}, DType::i32);
  workspace.declare(order_, "order of tokens", Shape{2 * rows}, DType::i64);
}

// Rows of a sample lie run by run of its positions; of these some are outside.
template <class Visit>
void Canonical::for_ranges(const Range& own, const Pass& pass, const Visit& visit) const {
  std::int64_t number = 0;
  for (const std::vector<ops::IndexRun>& range : tokens.ranges) {
    const std::int64_t positions = sizes_.tokens.positions;
    const Range own_samples{range.front().first / positions, range.front().count / positions};
    for (int i = 0; i < layout::canonical_ranges; ++i, ++number) {
      const Range part = layout::overlap(rows_of(layout::canonical_range(positions, i), pass.positions), own);
      for (std::int64_t sample = own_samples.first; sample < own_samples.end() && part.count > 0; ++sample)
        visit(number, sample * own.count + part.first - own.first, part.count, sample > own_samples.first);
    }
  }
}

Tensor Canonical::cleared(std::int64_t count, std::int64_t columns) const {
  const Tensor partials = partials_.flat(0, count * ranges_ * columns);
  ops_->elementwise().zero(partials);
  return partials.reshape(Shape{count * ranges_, columns});
}

// Ranks that have nothing of a range add zeros. In a matrix of rows of neighbours a column slice has every second one.
void Canonical::add_up(parallel::Boundary& boundary, const Tensor& partials) {
  if (boundary.kind() == parallel::BoundaryKind::splitting) boundary.add_up(partials).wait();
  samples.add_up(*ops_, partials);
  add_ranges(partials, ranges_);
}

void Canonical::add_ranges(const Tensor& sums, std::int64_t ranges) const {
  const std::int64_t width = sums.columns();
  for (std::int64_t apart = 1; apart < ranges; apart *= 2) {
    const Tensor pairs = sums.reshape(Shape{sums.rows() / (2 * apart), 2 * apart * width});
    ops_->elementwise().add(pairs.slice_columns(0, width), pairs.slice_columns(apart * width, width));
  }
}

void Canonical::leave_once(const Tensor& to, const Tensor& sum) const {
  samples.rank() == 0 ? ops_->elementwise().cast(to, sum) : ops_->elementwise().zero(to);
}

void Canonical::push(const ops::WeightWork& work) {
  if (!samples.divided() || work.grid == nullptr) return Sums::push(work);
  ensure(!work.accumulate, "in canonical mode a micro-batch has a gradient of its own");
  const Tensor x = samples.gather(*ops_, work.x, work.parts), dy = samples.deal(*ops_, work.dy, work.parts);
  const Range own = samples.share(work.gradient.rows());
  clear_around(*ops_, work.gradient, own);
  if (work.bias_gradient) ops_->elementwise().zero(work.bias_gradient);
  if (own.count == 0) return;
  const Tensor bias = work.bias_gradient ? work.bias_gradient.flat(own.first, own.count) : Tensor{};
  ops_->linear().backward_weight(work.gradient.slice_rows(own.first, own.count), bias, dy, x, false, work.grid);
}

void Canonical::norm_backward(ops::Norm& norm, parallel::Boundary& boundary, const Pass& pass, const ops::NormBackward& call) {
  const std::int64_t width = dims_.width;
  const Tensor partials = cleared(call.d_bias ? 2 : 1, width);
  for_ranges(boundary.outside(pass.grid()).positions, pass,
             [&](std::int64_t range, std::int64_t first, std::int64_t count, bool begun) {
               const auto rows = [&](const Tensor& of) { return of ? of.slice_rows(first, count) : Tensor{}; };
               const auto sums = [&](std::int64_t number) { return partials.flat((number * ranges_ + range) * width, width); };
               ops::NormBackward part = call;
               for (Tensor* tensor : {&part.dx, &part.n, &part.dn, &part.x, &part.stats, &part.residual}) *tensor = rows(*tensor);
               part.d_gain = sums(0);
               if (call.d_bias) part.d_bias = sums(1);
               part.accumulate = begun;
               norm.backward(part);
             });
  add_up(boundary, partials);
  leave_once(call.d_gain, partials.flat(0, width));
  if (call.d_bias) leave_once(call.d_bias, partials.flat(ranges_ * width, width));
}

int Canonical::range_of(std::int64_t head, bool of_keys) const {
  const std::int64_t first = of_keys ? dims_.first_kv_head : dims_.first_head;
  for (int i = 0; i < layout::canonical_ranges; ++i) {
    const Range query = layout::canonical_range(all_heads_, i);
    const Range range = of_keys ? kv_of(query, dims_.heads_per_kv) : query;
    const bool here = layout::overlap(query, {dims_.first_head, dims_.heads}).count == query.count;
    if (here && first + head >= range.first && first + head < range.end()) return i;
  }
  return -1;
}

// What a range of heads has of a range of rows is summed apart. Ranks that have nothing of it add zeros. The last sum is that of
// key/value heads whose gradient another rank counts; nothing reads it.
void Canonical::heads_backward(ops::Norm& norm, parallel::Boundary& boundary, const Pass& pass, const HeadsBackward& call) {
  ops_->elementwise().zero(head_sums_);
  int before = -1;
  for (std::int64_t head = 0; head * dims_.head_size < call.x.columns(); ++head) {
    const int of_heads = range_of(head, call.of_keys);
    for_ranges({0, pass.positions.count()}, pass, [&](std::int64_t range, std::int64_t first, std::int64_t count, bool begun) {
      ops::NormBackward part = call.head(head, first, count);
      const std::int64_t row = of_heads < 0 ? head_sums_.rows() - 1 : of_heads * ranges_ + range;
      part.d_gain = head_sums_.flat(row * dims_.head_size, dims_.head_size);
      part.accumulate = begun || of_heads == before;
      norm.backward(part);
    });
    before = of_heads;
  }
  const Tensor counted = head_sums_.slice_rows(0, head_sums_.rows() - 1);
  if (boundary.kind() != parallel::BoundaryKind::local) boundary.add_up(counted).wait();
  samples.add_up(*ops_, counted);
  add_ranges(counted, counted.rows());
  leave_once(call.d_gain, counted.flat(0, dims_.head_size));
}

// Each tensor rank has all rows of its own features.
void Canonical::width_gain(ops::SplitNorm& norm, const Pass& pass, const WidthGain& call) {
  const std::int64_t columns = call.d_gain.elements();
  const Tensor partials = cleared(1, columns);
  for_ranges({0, pass.positions.count()}, pass, [&](std::int64_t range, std::int64_t first, std::int64_t count, bool begun) {
    norm.gain_gradient(partials.flat(range * columns, columns), call.d.slice_rows(first, count), call.x.slice_rows(first, count),
                       call.rstd.flat(first, count), begun);
  });
  samples.add_up(*ops_, partials);
  add_ranges(partials, ranges_);
  leave_once(call.d_gain, partials.flat(0, columns));
}

void Canonical::sum_rows(parallel::Boundary& boundary, const Pass& pass, const Tensor& sum, const Tensor& rows,
                         bool /*accumulate*/) {
  const Tensor partials = cleared(1, dims_.width);
  for_ranges(boundary.outside(pass.grid()).positions, pass,
             [&](std::int64_t range, std::int64_t first, std::int64_t count, bool begun) {
               Sums::sum_rows(boundary, pass, partials.slice_rows(range, 1), rows.slice_rows(first, count), begun);
             });
  add_up(boundary, partials);
  leave_once(sum, partials.flat(0, dims_.width));
}

void Canonical::embed_backward(parallel::Boundary& /*boundary*/, const Pass& pass, const EmbeddingBackward& call) {
  const Tensor all = samples.deal(*ops_, call.inside, pass.parts);
  const Range own = samples.share(dims_.width);
  const std::int64_t rows = sizes_.tokens.rows();
  if (call.d_positions) {
    if (samples.divided()) ops_->elementwise().zero(call.d_positions);
    if (own.count > 0) sum_positions(call.d_positions.slice_columns(own.first, own.count), all, pass.starts);
  }
  if (own.count == 0) return;
  ops_->elementwise().cast(rows_.slice_rows(call.microbatch * rows, rows), all);
  if (call.microbatch + 1 < sizes_.microbatches) return;
  const Tensor columns = call.d_tokens.slice_columns(own.first, own.count);
  ops_->embedding().backward_tokens(columns, rows_, step_ids, dims_.first_token, step_tokens_, order_);
}

void Canonical::sum_positions(const Tensor& d_table, const Tensor& dy, const Tensor& starts) const {
  const auto place = [&](int number) {
    return number == 0 ? d_table : position_places_[static_cast<std::size_t>(number) - 1].slice_columns(0, d_table.columns());
  };
  const std::int64_t positions = sizes_.tokens.positions;
  for (int range = 0; range < sample_ranges(); ++range) {
    const ops::IndexRun& run = tokens.ranges[static_cast<std::size_t>(range)].front();
    ops_->embedding().backward_positions(place(place_in_tree(range)), dy.slice_rows(run.first, run.count), {0, positions}, false,
                                         starts ? starts.slice_rows(run.first / positions, run.count / positions) : Tensor{});
    merge_behind(range, [&](int to, int from) { ops_->elementwise().add(place(to), place(from)); });
  }
}

double Canonical::total(std::span<double> losses) const {
  for (std::size_t apart = 1; apart < losses.size(); apart *= 2) {
    for (std::size_t i = 0; i < losses.size(); i += 2 * apart) losses[i] += losses[i + apart];
  }
  return losses.front();
}

std::unique_ptr<Sums> make_reading_sums(const arch::ModelConfig& config, const layout::ShardedDims& dims, bool canonical) {
  if (!canonical) return std::make_unique<Sums>(dims);
  return std::make_unique<Canonical>(config, dims, CanonicalSizes{.tokens = {1, 1}});
}

}  // namespace lockstep::model
