#include "model/saved.h"

#include "ops/attention.h"

namespace lockstep::model {

void declare(Arena& arena, BlockSaved& saved, const layout::ShardedDims& dims, std::int64_t rows, DType type) {
  const auto matrix = [&](Tensor& out, const char* name, std::int64_t columns, DType of) {
    arena.declare(out, name, Shape{rows, columns}, of);
  };
  const auto spread = [&](Tensor& out, const char* name, std::int64_t columns) {
    arena.declare_spread(out, name, Shape{rows, columns}, type);
  };
  matrix(saved.x, "x", dims.width, type);
  matrix(saved.stats1, "stats1", 2, DType::f32);
  spread(saved.qkv, "qkv", dims.qkv_width());
  matrix(saved.attention, "attention", dims.attention_width(), type);
  matrix(saved.lse, "lse", dims.heads, DType::f32);
  matrix(saved.middle, "middle", dims.width, type);
  matrix(saved.stats2, "stats2", 2, DType::f32);
  spread(saved.pre_activation, "pre_activation", dims.up_width());
}

void declare(Arena& arena, Scratch& scratch, const layout::ShardedDims& dims, std::int64_t rows, DType type,
             const ScratchNeeds& needs) {
  const auto matrix = [&](Tensor& out, const char* name, std::int64_t columns) {
    arena.declare(out, name, Shape{rows, columns}, type);
  };
  const auto spread = [&](Tensor& out, const char* name, std::int64_t columns) {
    arena.declare_spread(out, name, Shape{rows, columns}, type);
  };
  const Arena::Mark start = arena.mark();
  matrix(scratch.normed, "normed", dims.width);
  if (needs.branch) matrix(scratch.branch, "branch", dims.width);
  if (needs.backward) matrix(scratch.d_normed, "d_normed", dims.width);
  const Arena::Mark shared = arena.mark();
  spread(scratch.activated, "activated", dims.ffn_width);
  if (needs.backward) {
    arena.rewind(shared);
    spread(scratch.d_hidden, "d_hidden", dims.up_width());
    arena.rewind(shared);
    matrix(scratch.d_attention, "d_attention", dims.attention_width());
    spread(scratch.d_qkv, "d_qkv", dims.qkv_width());
    arena.declare(scratch.delta, "delta", Shape{rows, ops::delta_columns(dims.heads, dims.head_size, type)}, DType::f32);
  }
  arena.rewind(start);
}

}  // namespace lockstep::model
