#pragma once

// Whole matrices for an update rule that needs them. Each rank sends what it has of a step's directions to the owner of the
// matrix. What the owner makes of them comes back to all ranks that hold the matrix.

#include <functional>
#include <span>

#include "comm/communicator.h"
#include "layout/whole_matrices.h"
#include "ops/ops.h"
#include "parallel/training_state.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

/// What a rank needs to exchange matrices. All tensors are f32 and flat.
struct MatrixMemory {
  void declare(Arena& workspace, layout::MatrixPlan of);

  layout::MatrixPlan plan;
  Tensor directions;         ///< of all matrix elements that the rank holds
  Tensor outgoing;           ///< of the elements that it answers for, where these are fewer
  Tensor arriving, leaving;  ///< of its own matrices, from all ranks and to them; the same where what comes back lies alike
  Tensor whole;              ///< the largest of its own matrices
};

class MatrixExchange {
 public:
  /// `group` has the ranks of the plan; both outlive this. `units`: how many the model has.
  MatrixExchange(const MatrixMemory& memory, comm::Communicator& group, std::size_t units);

  /// Calls body(elements, directions) for each run of `range`, elements of a unit, that lies in a matrix.
  template <class Body>
  void for_parts(UnitIndex unit, const layout::Range& range, const Body& body) const {
    for (const layout::MatrixPart& part : of_units_[static_cast<std::size_t>(unit.value)]) {
      const layout::Range held = layout::overlap(part.elements, range);
      if (held.count > 0) body(held, memory_.directions.flat(part.place + held.first - part.elements.first, held.count));
    }
  }
  /// Every owner calls work(matrix) on each of its matrices, [rows, columns], whole. What is left there replaces the directions
  /// on all ranks. Collective.
  void with_owners(ops::Ops& ops, const std::function<void(const Tensor& matrix)>& work);

 private:
  bool alone() const { return group_.size() == 1; }
  const layout::MatrixPart& held_part(const layout::MatrixPart& own) const;

  const MatrixMemory& memory_;
  comm::Communicator& group_;
  std::vector<std::vector<layout::MatrixPart>> of_units_;
};

}  // namespace lockstep::parallel
