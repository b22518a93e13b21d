#pragma once

// The gradient of a matrix that embedding and head share. H, the head's part, is dense and lies in the gradient store. E, the
// embedding's part, lies here. Only the rows of tokens that were read differ from zero in it. H and E are kept apart, reduced
// apart and added once, as H + E, in every layout (numerics.md section 3.6). They are added by ranges of elements, since a rank
// may hold any range of H. Only rows of E that some rank has seen are sent.

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "ops/ops.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

/// The arenas of gradients and of what is needed to add them up.
struct GradientArenas {
  Arena &gradients, &activations, &workspace;
};

/// Which part of a tied matrix's gradient a rank makes. That is one part alone where the embedding and the head are on different
/// ranks of a pipeline.
enum class TiedSide : std::uint8_t { both, embedding, head };

/// What a tied matrix's memory is declared for.
struct TiedSizes {
  Shape shape;              ///< [V, C]
  std::int64_t tokens = 0;  ///< that a step reads at most, on each of the ranks
  int ranks = 1;            ///< the number of ranks whose rows are added up
  TiedSide side = TiedSide::both;
};

/// What a rank keeps of a tied matrix's gradient beside H.
struct TiedMatrixMemory {
  void declare(const GradientArenas& arenas, const TiedSizes& sizes);

  Shape shape;  ///< [V, C]
  TiedSide side = TiedSide::both;
  Tensor rows;    ///< [V, C] f32: E, where it is made here
  Tensor packed;  ///< [min(V, all tokens), C] f32: the rows that travel; none where there is one rank
  Mirror listed;  ///< [min(V, all tokens)] i32: which rows these are, ascending
};

/// The rank of another pipeline stage that makes the other part of the gradient, of the same samples. There is none where this
/// rank makes both parts.
struct TiedPartner {
  comm::Communicator* pipeline = nullptr;
  int rank = -1;
};

class TiedMatrix {
 public:
  /// `memory` is declared for the ranks of `group`. Its first row is that of token `first_token`, where other ranks have the rest
  /// of the vocabulary. All arguments outlive this.
  TiedMatrix(const TiedMatrixMemory& memory, comm::Communicator& group, ops::Ops& ops, const TiedPartner& partner = {},
             std::int64_t first_token = 0);

  /// A new step: E is zero.
  void begin();
  /// The step reads `tokens` [n] i32, in host memory.
  void expect(const Tensor& tokens);
  /// E [V, C] f32: rows of the step's tokens may be added to. Only for a rank that has the embedding.
  const Tensor& open_rows();
  /// E as this rank has it, until the next begin() or reduce_rows().
  const Tensor& rows() const { return memory_.rows; }
  /// Sums E over the group. Only add_rows() gives E afterwards. Collective.
  void reduce_rows();
  /// Called after reduce_rows(), when H is reduced. Where two ranks make the parts, each gets the other's part, so that both add
  /// the same. `h`: what this rank has of H, or gets of it; flat, f32.
  void exchange(const Tensor& h);
  /// h += E's elements from `first` on. `h` is flat, f32, and may reach beyond the matrix (a unit's padding). Called once for
  /// each element.
  void add_rows(const Tensor& h, std::int64_t first);

 private:
  struct Span {
    std::int64_t first, last;
  };
  bool alone() const { return group_.size() == 1 && memory_.side == TiedSide::both; }
  std::int64_t vocabulary() const { return memory_.shape.rows(); }
  std::int64_t width() const { return memory_.shape.last(); }
  void list_rows();
  /// Adds `elements` of E, which lie within one row. `h` begins with element `origin` of the matrix.
  void add_part(const Tensor& h, std::int64_t origin, Span elements);
  /// Adds whole `rows` of E. `h` begins with element `origin` of the matrix.
  void add_whole(const Tensor& h, std::int64_t origin, Span rows);

  const TiedMatrixMemory& memory_;
  comm::Communicator& group_;
  ops::Ops& ops_;
  TiedPartner partner_;
  std::int64_t first_token_;
  std::int64_t count_ = 0;          ///< the number of rows that are listed
  std::vector<std::int32_t> seen_;  ///< [V]: 1 for a row that a token of this step names
  bool used_ = false;               ///< rows of E may differ from zero
};

}  // namespace lockstep::parallel
