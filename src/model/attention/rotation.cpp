#include "model/attention/rotation.h"

#include "arch/rotary.h"

namespace lockstep::model {

void declare_angles(Arena& arena, Mirror& angles, const arch::ModelConfig& config) {
  if (config.position != arch::PositionKind::rope) return;
  arena.declare(angles, "rotary_angles", Shape{config.block_size, config.head_size}, DType::f32);
}

void compute_angles(const Context& context) {
  if (!context.angles.device) return;
  const std::vector<float> frequencies = arch::rotary_frequencies(context.config);
  const arch::Rope& rope = context.config.rope;
  const double length = rope.scaling == arch::RopeScaling::yarn ? rope.attention_factor : 1;
  for (std::int64_t position = 0; position < context.angles.host.rows(); ++position) {
    arch::rotary_angles(elements<float>(context.angles.host.slice_rows(position, 1)), frequencies, position, length);
  }
  upload(context.ops.stream(), context.angles);
}

void rotate(const Context& context, const Tensor& x, const Pass& pass) {
  if (!context.angles.device) return;
  context.ops.rotary().rotate(x, context.angles.device, {.positions = pass.positions, .starts = pass.starts});
}

void rotate_back(const Context& context, const Tensor& x, const Pass& pass) {
  if (!context.angles.device) return;
  context.ops.rotary().rotate(x, context.angles.device, {.positions = pass.positions, .inverse = true, .starts = pass.starts});
}

}  // namespace lockstep::model
