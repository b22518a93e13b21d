#include "model/attention/rotation.h"

#include "arch/rotary.h"

namespace lockstep::model {

namespace {

Tensor table_of(const Context& context, bool local) {
  const std::int64_t positions = context.config.block_size;
  return context.angles.device.slice_rows(local && arch::has_local_theta(context.config) ? positions : 0, positions);
}

}  // namespace

void declare_angles(Arena& arena, Mirror& angles, const arch::ModelConfig& config) {
  if (config.position != arch::PositionKind::rope) return;
  const std::int64_t tables = arch::has_local_theta(config) ? 2 : 1;
  arena.declare(angles, "rotary_angles", Shape{tables * config.block_size, config.head_size}, DType::f32);
}

void compute_angles(const Context& context) {
  if (!context.angles.device) return;
  const std::int64_t positions = context.config.block_size;
  const auto fill = [&](std::int64_t first_row, const std::vector<float>& frequencies, double length) {
    for (std::int64_t position = 0; position < positions; ++position) {
      const Tensor row = context.angles.host.slice_rows(first_row + position, 1);
      arch::rotary_angles(elements<float>(row), frequencies, position, length);
    }
  };
  const arch::Rope& rope = context.config.rope;
  fill(0, arch::rotary_frequencies(context.config), rope.attention_factor);
  if (arch::has_local_theta(context.config)) fill(positions, arch::local_rotary_frequencies(context.config), 1);
  upload(context.ops.stream(), context.angles);
}

void rotate(const Context& context, const Tensor& x, const Pass& pass, bool local) {
  if (!context.angles.device) return;
  context.ops.rotary().rotate(x, table_of(context, local), {.positions = pass.positions, .starts = pass.starts});
}

void rotate_back(const Context& context, const Tensor& x, const Pass& pass, bool local) {
  if (!context.angles.device) return;
  context.ops.rotary().rotate(x, table_of(context, local), {.positions = pass.positions, .inverse = true, .starts = pass.starts});
}

}  // namespace lockstep::model
