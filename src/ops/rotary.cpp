#include "ops/rotary.h"

#include "ops/check.h"

namespace lockstep::ops {

void Rotary::rotate(const Tensor& x, const Tensor& angles, const RotaryPlace& place) {
  const std::int64_t head_size = angles.columns();
  check_dense(angles, angles.elements(), "angles");
  demand(head_size >= 2 && head_size % 2 == 0, "angles", "a head's features make pairs");
  check_matrix(x, x.rows(), x.columns(), "x", storage_of(x, "x"));
  demand(x.columns() % head_size == 0, "x", "the columns are whole heads");
  check_samples(x, place.positions, "x");
  demand(place.starts || place.positions.end() <= angles.rows(), "angles", "they have a row for every position");
  check_starts(place.starts, x.rows() / place.positions.count(), place.positions.end());
  check_device({&x, &angles, &place.starts});
  const OpScope running = scope("rotate");
  do_rotate(x, angles, place);
}

}  // namespace lockstep::ops
