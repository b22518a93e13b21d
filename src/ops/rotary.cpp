#include "ops/rotary.h"

#include "ops/check.h"

namespace lockstep::ops {

void Rotary::rotate(const Tensor& x, const Tensor& angles, const RotaryPlace& place) {
  const std::int64_t head_size = angles.columns();
  check_dense(angles, angles.elements(), "angles");
  demand(head_size >= 2 && head_size % 2 == 0, "angles", "a head's features make pairs");
  check_matrix(x, x.rows(), x.columns(), "x", storage_of(x, "x"));
  demand(x.columns() % head_size == 0, "x", "the columns are whole heads");
  demand(place.positions > 0 && x.rows() % place.positions == 0, "x", "the rows are whole samples");
  demand(place.first_position >= 0 && place.first_position + place.positions <= angles.rows(), "angles",
         "they have a row for every position");
  check_device({&x, &angles});
  do_rotate(x, angles, place);
}

}  // namespace lockstep::ops
