#include "model/rotation.h"

#include "arch/rotary.h"

namespace lockstep::model {

void declare_angles(Context& context, Arena& arena) {
  if (context.config.position != arch::PositionKind::rope) return;
  arena.declare(context.angles, "rotary_angles", Shape{context.config.block_size, context.dims.head_size}, DType::f32);
}

void compute_angles(const Context& context) {
  if (!context.angles) return;
  const std::vector<float> frequencies = arch::rotary_frequencies(context.config);
  for (std::int64_t position = 0; position < context.angles.rows(); ++position) {
    arch::rotary_angles(elements<float>(context.angles.slice_rows(position, 1)), frequencies, position);
  }
}

void rotate(const Context& context, const Tensor& x, std::int64_t positions, std::int64_t first_position) {
  if (!context.angles) return;
  context.ops.rotary().rotate(x, context.angles, {.positions = positions, .first_position = first_position});
}

void rotate_back(const Context& context, const Tensor& x, std::int64_t positions) {
  if (!context.angles) return;
  context.ops.rotary().rotate(x, context.angles, {.positions = positions, .inverse = true});
}

}  // namespace lockstep::model
