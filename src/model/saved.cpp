#include "model/saved.h"

namespace lockstep::model {

void declare(Arena& arena, BlockSaved& saved, const layout::ShardedDims& dims, std::int64_t rows) {
  const auto matrix = [&](Tensor& out, const char* name, std::int64_t columns) {
    arena.declare(out, name, Shape{rows, columns}, DType::f32);
  };
  matrix(saved.x, "x", dims.width);
  matrix(saved.stats1, "stats1", 2);
  matrix(saved.qkv, "qkv", dims.qkv_width());
  matrix(saved.attention, "attention", dims.attention_width());
  matrix(saved.lse, "lse", dims.heads);
  matrix(saved.middle, "middle", dims.width);
  matrix(saved.stats2, "stats2", 2);
  matrix(saved.pre_activation, "pre_activation", dims.up_width());
}

void declare(Arena& arena, Scratch& scratch, const layout::ShardedDims& dims, std::int64_t rows, bool training, bool branch) {
  const auto matrix = [&](Tensor& out, const char* name, std::int64_t columns) {
    arena.declare(out, name, Shape{rows, columns}, DType::f32);
  };
  const Arena::Mark start = arena.mark();
  matrix(scratch.normed, "normed", dims.width);
  if (branch) matrix(scratch.branch, "branch", dims.width);
  if (training) matrix(scratch.d_normed, "d_normed", dims.width);
  const Arena::Mark shared = arena.mark();
  matrix(scratch.activated, "activated", dims.ffn_width);
  if (training) {
    matrix(scratch.d_hidden, "d_hidden", dims.up_width());
    arena.rewind(shared);
    matrix(scratch.d_attention, "d_attention", dims.attention_width());
    matrix(scratch.d_qkv, "d_qkv", dims.qkv_width());
    matrix(scratch.delta, "delta", dims.heads);
  }
  arena.rewind(start);
}

}  // namespace lockstep::model
