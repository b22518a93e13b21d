#pragma once

// Logits over the whole vocabulary on the host, whatever part of it a rank has. Text is drawn from them. Training never makes
// them.

#include "layout/sharded_dims.h"
#include "parallel/boundary.h"
#include "tensor/arena.h"

namespace lockstep::train {

class WholeLogits {
 public:
  /// Room for at most `rows` rows. `dims` are this rank's; inputs of the head pass through `boundary`. Both outlive this.
  WholeLogits(const layout::ShardedDims& dims, parallel::Boundary& boundary, std::int64_t vocabulary, std::int64_t rows)
      : dims_(dims), boundary_(boundary), vocabulary_(vocabulary), rows_(rows) {}
  void declare(Arena& workspace);

  /// Where the rank's own logits are made: [rows, V of its part] f32.
  Tensor own(std::int64_t rows) const;
  /// Where bring() puts whole logits: [rows, V] on the host.
  Tensor host(std::int64_t rows) const;
  /// host(rows) = the own(rows) of all ranks that divide the vocabulary. Collective over these ranks.
  Tensor bring(Stream& stream, std::int64_t rows) const;

 private:
  /// Elements that each part has room for.
  std::int64_t room() const { return rows_ * dims_.greatest_vocabulary; }
  const layout::ShardedDims& dims_;
  parallel::Boundary& boundary_;
  std::int64_t vocabulary_, rows_;
  Mirror parts_;  ///< [parts, room()] f32: each part's own rows one after another
  Mirror whole_;  ///< [rows, V] f32, on the host, where there are several parts
};

}  // namespace lockstep::train
