#pragma once

// A group of ranks and what they do together. Operations are issued on the communicator's stream in the same order by
// every rank. Counts and offsets are elements of dense tensors. Nothing above this header can tell transports apart.

#include <cstdint>
#include <memory>
#include <span>

#include "comm/reduction.h"
#include "comm/request.h"
#include "tensor/tensor.h"

namespace lockstep::comm {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Asynchronous forms. Buffers stay the caller's and untouched until the request is finished. Shapes are checked
  // (BrokenRule); `root` is in [0, size()).
  /// x = the reduction of every rank's x, in place.
  virtual Request all_reduce(const Tensor& x, Reduction reduction) = 0;
  /// On root: x = the reduction of every rank's x; elsewhere x is unchanged.
  virtual Request reduce(const Tensor& x, Reduction reduction, int root) = 0;
  virtual Request broadcast(const Tensor& x, int root) = 0;
  /// out = the parts of ranks 0, 1, ... one after another; counts[r] elements from rank r (part has counts[rank()]).
  virtual Request all_gather(const Tensor& out, const Tensor& part, std::span<const std::int64_t> counts) = 0;
  /// part = this rank's range of the reduction of every rank's `in`; counts[r] elements for rank r.
  virtual Request reduce_scatter(const Tensor& part, const Tensor& in, std::span<const std::int64_t> counts,
                                 Reduction reduction) = 0;
  /// On root: out = the parts one after another.
  virtual Request gather(const Tensor& out, const Tensor& part, int root) = 0;
  /// part = this rank's piece of root's `in`.
  virtual Request scatter(const Tensor& part, const Tensor& in, int root) = 0;
  /// Piece r of `in` goes to rank r and piece r of `out` comes from it.
  virtual Request all_to_all(const Tensor& out, const Tensor& in) = 0;
  virtual Request send(const Tensor& x, int to) = 0;
  virtual Request receive(const Tensor& x, int from) = 0;
  virtual void barrier() = 0;
  /// Ranks of equal `colour` form a new group, ordered by `key`, then by rank.
  virtual std::unique_ptr<Communicator> split(int colour, int key) = 0;
};

/// A world of one rank.
std::unique_ptr<Communicator> make_self();

}  // namespace lockstep::comm
