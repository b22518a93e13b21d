#pragma once

// Each rank has some positions of every sample. An exchange gives it some columns of the rows of all positions. In return it
// sends the columns of its own rows that other ranks get.

#include <span>
#include <vector>

#include "comm/communicator.h"
#include "layout/range.h"
#include "ops/ops.h"
#include "parallel/context/split_positions.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

class RowExchange {
 public:
  /// Which columns each rank gets; several may get the same.
  using Columns = std::vector<layout::Range>;
  void connect(comm::Communicator& group, comm::Purpose purpose) {
    group_ = &group;
    purpose_ = purpose;
  }
  /// Declares memory for messages of at most `elements` elements of `type`, all ranks' together.
  void declare(Arena& arena, std::int64_t elements, DType type);

  /// all [all rows, this rank's columns] = those columns of every rank's own [its rows, all columns]. Collective, as outwards()
  /// is.
  void inwards(ops::Ops& ops, const Tensor& all, const Tensor& own, const Columns& columns, const SplitRows& rows);
  /// The reverse of inwards(). Where several ranks have a column, their values are summed.
  void outwards(ops::Ops& ops, const Tensor& own, const Tensor& all, const Columns& columns, const SplitRows& rows);

 private:
  /// Sends outgoing_[r] elements of sent_ to rank r. received_ gets incoming_[r] elements from rank r.
  void exchange(ops::Ops& ops);
  std::int64_t& outgoing(int rank) { return outgoing_[static_cast<std::size_t>(rank)]; }
  std::int64_t& incoming(int rank) { return incoming_[static_cast<std::size_t>(rank)]; }

  comm::Communicator* group_ = nullptr;
  comm::Purpose purpose_ = comm::Purpose::other;
  Tensor sent_, received_;  ///< messages, rank by rank, each a matrix of its own
  std::vector<std::int64_t> outgoing_, incoming_;
};

}  // namespace lockstep::parallel
