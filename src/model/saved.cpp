#include "model/saved.h"

#include <algorithm>

#include "layout/canonical_grid.h"

namespace lockstep::model {
namespace {

/// Declares matrices of the same number of rows.
class Matrices {
 public:
  Matrices(Arena& arena, std::int64_t rows, DType type) : arena_(arena), rows_(rows), type_(type) {}
  void matrix(Tensor& out, const char* name, std::int64_t columns) const {
    arena_.declare(out, name, Shape{rows_, columns}, type_);
  }
  void statistics(Tensor& out, const char* name, std::int64_t columns) const {
    arena_.declare(out, name, Shape{rows_, columns}, DType::f32);
  }
  void spread(Tensor& out, const char* name, std::int64_t columns) const {
    arena_.declare_spread(out, name, Shape{rows_, columns}, type_);
  }

 private:
  Arena& arena_;
  std::int64_t rows_;
  DType type_;
};

/// What lies between the matrices of a block's adapters, and its gradient.
void declare_adapters(Arena& arena, Tensor& out, const BlockSizes& sizes) {
  const std::int64_t places = 2 * sizes.dims.adapters;
  if (places > 0) arena.declare(out, "adapters", Shape{places * sizes.rows.inside, sizes.dims.adapter_rank}, sizes.type);
}

/// The widest sums that adapters leave beside a product's result: f32 is summed where it is wanted, unless that is the residual
/// stream.
std::int64_t adapter_sums(const BlockSizes& sizes) {
  const layout::ShardedDims& dims = sizes.dims;
  if (dims.adapters == 0) return 0;
  if (sizes.type == DType::f32) return dims.width;
  return std::max({dims.width, dims.qkv_width(), dims.up_width()});
}

}  // namespace

Rows rows_of(const parallel::Boundaries& boundaries, const parallel::TokenGrid& tokens) {
  Rows rows{.inside = tokens.rows(), .outside = boundaries.attention->outside(tokens).rows(), .judged = tokens.rows()};
  for (const parallel::Boundary* boundary : {boundaries.embedding, boundaries.attention, boundaries.mlp, boundaries.head}) {
    ensure(boundary->outside(tokens).rows() == rows.outside, "a model's boundaries split rows alike");
    rows.kind = std::max(rows.kind, boundary->kind());
  }
  return rows;
}

void declare(Arena& arena, BlockSaved& saved, const BlockSizes& sizes, const SavedNeeds& needs) {
  const auto& [dims, rows, type, attention, tile_sums] = sizes;
  const Matrices inside(arena, rows.inside, type), outside(arena, rows.outside, type);
  if (needs.x) outside.matrix(saved.x, "x", dims.width);
  if (needs.kept) {
    if (dims.pre_norm) outside.statistics(saved.stats1, "stats1", 2);
    inside.spread(saved.qkv, "qkv", dims.qkv_width());
    if (dims.qk_norm) {
      inside.spread(saved.qk, "qk", dims.attention_width() + dims.kv_width());
      const std::int64_t norms = dims.qk_norm_whole ? 2 : dims.heads + dims.kv_heads;
      Matrices(arena, rows.inside * norms, type).statistics(saved.qk_stats, "qk_stats", dims.qk_norm_whole ? 1 : 2);
    }
  }
  if (needs.attention) inside.matrix(saved.attention, "attention", dims.attention_width());
  if (needs.kept) {
    attention.declare(arena, saved.attention_saved, {rows.inside, dims, type});
    outside.matrix(saved.middle, "middle", dims.width);
    if (dims.pre_norm) outside.statistics(saved.stats2, "stats2", 2);
  }
  if (needs.kept && dims.post_norm) {
    for (SavedBranch* branch : {&saved.branch1, &saved.branch2}) {
      outside.matrix(branch->rows, "branch", dims.width);
      outside.statistics(branch->stats, "branch_stats", 2);
    }
  }
  if (needs.pre_activation) inside.spread(saved.pre_activation, "pre_activation", dims.up_width());
}

void declare(Arena& arena, BlockDeferred& deferred, const BlockSizes& sizes, const SavedNeeds& again) {
  const auto& [dims, rows, type, attention, tile_sums] = sizes;
  const Matrices inside(arena, rows.inside, type), outside(arena, rows.outside, type);
  inside.matrix(deferred.attention_normed, "normed1", dims.width);
  inside.matrix(deferred.attention_d, "d_attention_out", dims.width);
  inside.spread(deferred.d_qkv, "d_qkv", dims.qkv_width());
  inside.matrix(deferred.mlp_normed, "normed2", dims.width);
  inside.matrix(deferred.mlp_d, "d_mlp_out", dims.width);
  inside.spread(deferred.d_hidden, "d_hidden", dims.up_width());
  declare_adapters(arena, deferred.adapters, sizes);
  if (again.attention) inside.matrix(deferred.attention, "attention", dims.attention_width());
  if (again.pre_activation) inside.spread(deferred.pre_activation, "pre_activation", dims.up_width());
}

void declare(Arena& arena, Scratch& scratch, const BlockSizes& sizes, const ScratchNeeds& needs) {
  const auto& [dims, rows, type, attention, tile_sums] = sizes;
  const Matrices inside(arena, rows.inside, type), outside(arena, rows.outside, type);
  const Arena::Mark start = arena.mark();
  outside.matrix(scratch.normed, "normed", dims.width);
  if (needs.branch || dims.post_norm || dims.scales_branches) outside.matrix(scratch.branch, "branch", dims.width);
  if (needs.input_backward) outside.matrix(scratch.d_normed, "d_normed", dims.width);
  if (rows.carries()) {
    inside.statistics(scratch.partial, "partial", dims.width);
    if (rows.split()) {
      outside.statistics(scratch.sums, "sums", dims.width);
      inside.matrix(scratch.normed_inside, "normed_inside", dims.width);
      if (needs.input_backward) inside.matrix(scratch.d_inside, "d_inside", dims.width);
    }
  }
  if (dims.qk_norm_whole) {
    const Shape ranges{layout::canonical_ranges, 2 * rows.inside};
    arena.declare(scratch.width_sums, "sums of queries and keys", ranges, DType::f32);
  }
  const std::int64_t sums = std::max(tile_sums, adapter_sums(sizes));
  if (sums > 0) inside.statistics(scratch.tile_sums, "sums of tiles", sums);
  declare_adapters(arena, scratch.adapters, sizes);
  scratch.adapter_places = std::max<std::int64_t>(1, 2 * dims.adapters);
  const Arena::Mark shared = arena.mark();
  inside.spread(scratch.activated, "activated", dims.ffn_width);
  if (needs.weight_backward) {
    arena.rewind(shared);
    inside.spread(scratch.d_hidden, "d_hidden", dims.up_width());
  }
  if (needs.input_backward) {
    arena.rewind(shared);
    inside.matrix(scratch.d_attention, "d_attention", dims.attention_width());
    if (needs.weight_backward) inside.spread(scratch.d_qkv, "d_qkv", dims.qkv_width());
    attention.declare(arena, {rows.inside, dims, type});
  }
  arena.rewind(start);
}

BackwardScratch::BackwardScratch(const Scratch& scratch, const BlockDeferred& deferred) : BackwardScratch(scratch) {
  const auto keep = [](Scratch& of, const Tensor& normed, const Tensor& d) {
    const bool split = static_cast<bool>(of.normed_inside);
    (split ? of.normed_inside : of.normed) = normed;
    (split ? of.d_inside : of.branch) = d;
    of.keeps_branch = true;
  };
  keep(attention, deferred.attention_normed, deferred.attention_d);
  keep(mlp, deferred.mlp_normed, deferred.mlp_d);
  attention.adapters = mlp.adapters = deferred.adapters;
  attention.d_qkv = deferred.d_qkv;
  mlp.d_hidden = deferred.d_hidden;
}

}  // namespace lockstep::model
