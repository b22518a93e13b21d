#pragma once

// Which rank works on which matrix where an update rule needs whole ones, and what the other ranks send it. Each matrix has one
// owner, to which pieces travel and from which they come back. These are pure functions of a plan, the same on every rank.

#include <functional>
#include <vector>

#include "layout/state_cut.h"

namespace lockstep::layout {

/// A matrix. Where a parameter is cut in groups by rows, as q, k and v are, each group is a matrix.
struct WholeMatrix {
  int unit = 0, parameter = 0;  ///< the parameter's number in the unit
  std::int64_t first = 0;       ///< the matrix's first element in the parameter
  std::int64_t rows = 0, columns = 0;
  int owner = 0;  ///< a rank of those that share the matrices
  std::int64_t elements() const { return rows * columns; }
};

/// The matrices of the trained parameters that are `wanted`, in the order of units.
std::vector<WholeMatrix> whole_matrices(const std::vector<Unit>& units, const std::function<bool(const ParameterInfo&)>& wanted);
/// Gives each matrix an owner among ranks [first, first + ranks). Matrices that cost most come first. Each goes to the rank that
/// has least to do, or to the first of such ranks. A matrix costs the products of a Newton-Schulz iteration
/// (train/optimizer/newton_schulz).
void share_out(std::vector<WholeMatrix>& matrices, int first, int ranks);

/// What a rank holds of a matrix lies in one run of its unit.
struct MatrixPart {
  int matrix = 0;
  Range elements = {};     ///< of the unit
  std::int64_t place = 0;  ///< where it begins in the rank's message to all owners
};
/// A rectangle of a matrix, whose elements lie one after another in a message.
struct MatrixPiece {
  int matrix = 0;
  std::int64_t row = 0, column = 0, rows = 0, columns = 0;
  std::int64_t place = 0;  ///< in the message
};

/// One of the ranks that hold parts of the matrices.
struct MatrixHolder {
  const std::vector<Unit>& units;
  StateCut cut;
};
/// A rank's elements in the order in which it sends them: by owner, then by matrix, then as they lie.
struct MatrixMessage {
  std::vector<MatrixPart> parts;
  std::vector<MatrixPiece> pieces;
  std::vector<std::int64_t> counts;  ///< elements for each owner, of `ranks` ranks
  std::int64_t elements = 0;
};
/// The message of all matrix elements that the rank holds.
MatrixMessage held_message(const std::vector<WholeMatrix>& matrices, const MatrixHolder& holder, int ranks);
/// The message of the elements that the rank answers for: each element is in the message of one rank.
MatrixMessage own_message(const std::vector<WholeMatrix>& matrices, const MatrixHolder& holder, int ranks);

/// What one rank sends and gets.
struct MatrixPlan {
  int ranks = 1;                      ///< of the group that exchanges
  std::vector<WholeMatrix> matrices;  ///< of the rank's stage
  std::vector<int> owned = {};        ///< the matrices that this rank owns, in order
  MatrixMessage held = {}, own = {};  ///< of this rank
  /// The pieces of this rank's matrices that come from each rank, and that go to it. They are placed in all messages one after
  /// another.
  std::vector<MatrixPiece> arriving = {}, leaving = {};
  std::vector<std::int64_t> arriving_counts = {}, leaving_counts = {};
  /// Every rank answers for all that it holds. What comes back then lies where it came from.
  bool alike = true;
};
/// The plan of rank `rank` of `mesh`. `units`: what each tensor rank holds of the rank's stage. State is cut over `over`.
/// `wanted`: which parameters are needed whole.
MatrixPlan matrix_plan(const Mesh& mesh, int rank, const std::vector<std::vector<Unit>>& units, CutOver over,
                       const std::function<bool(const ParameterInfo&)>& wanted);

}  // namespace lockstep::layout
