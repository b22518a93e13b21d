#pragma once

// A group of ranks and what they do together. Every rank issues the same operations in the same order. Counts are elements
// of dense tensors. Nothing above this header can tell transports apart: a reduction has one order of additions on all of
// them (comm/combine.h).
//
// An operation that another rank does not enter ends with a SystemError on every rank. So does one that another rank enters with
// another kind, type, size or root. The error names the operation, who is missing and what each rank did last.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/operation.h"
#include "comm/reduction.h"
#include "comm/request.h"
#include "device/memory.h"
#include "device/stream.h"
#include "tensor/tensor.h"

namespace lockstep {
class Team;
}

namespace lockstep::comm {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Asynchronous forms. Buffers stay the caller's and untouched until the request is finished; `counts` are copied. Shapes are
  // checked (BrokenRule); `root` is in [0, size()). Types: f32, bf16, f64, i32, i64; what is not reduced may have any. A mean
  // of integers is refused.
  /// x = the reduction of every rank's x, in place.
  Request all_reduce(const Tensor& x, Reduction reduction);
  /// On root: x = the reduction of every rank's x; elsewhere x is unchanged.
  Request reduce(const Tensor& x, Reduction reduction, int root);
  Request broadcast(const Tensor& x, int root);
  /// out = the parts of ranks 0, 1, ... one after another; counts[r] elements from rank r. The part may be its place in out.
  Request all_gather(const Tensor& out, const Tensor& part, std::span<const std::int64_t> counts);
  /// part = this rank's range of the reduction of every rank's `in`; counts[r] elements for rank r. The part may be its place
  /// in `in`; the rest of `in` is unchanged.
  Request reduce_scatter(const Tensor& part, const Tensor& in, std::span<const std::int64_t> counts, Reduction reduction);
  /// On root: out = the parts, of one size, one after another; elsewhere out is not used.
  Request gather(const Tensor& out, const Tensor& part, int root);
  /// part = this rank's piece, of one size, of root's `in`; elsewhere `in` is not used.
  Request scatter(const Tensor& part, const Tensor& in, int root);
  /// Piece r of `in` goes to rank r and piece r of `out` comes from it; all pieces have one size. `out` is not `in`.
  Request all_to_all(const Tensor& out, const Tensor& in);
  /// As all_to_all() above, with in_counts[r] elements to rank r and out_counts[r] from it.
  Request all_to_all(const Tensor& out, std::span<const std::int64_t> out_counts, const Tensor& in,
                     std::span<const std::int64_t> in_counts);
  /// Sends between two ranks are received in their order.
  Request send(const Tensor& x, int to);
  Request receive(const Tensor& x, int from);
  void barrier();
  /// Ranks of equal `colour` form a new group, ordered by `key`, then by rank. Collective.
  std::unique_ptr<Communicator> split(int colour, int key);
  /// The same ranks, for what lies in host memory whatever their device is: times, counts, what they decide together. It is this
  /// group itself where this group carries host memory.
  virtual Communicator& host() { return *this; }
  /// Seconds for which this rank has been blocked in wait(), join() and barrier() so far. They are those of this group, of the
  /// group that it was split from, and of all that were split from either. The rank's own share of an operation that is done
  /// meanwhile counts.
  double waited_seconds() const { return traffic().total().waited; }
  /// All that was exchanged so far, in the groups that waited_seconds() counts.
  const Traffic& traffic() const { return account_->traffic; }
  /// The next operation of the groups that share traffic() is counted for `purpose`. Without this call it is counted for
  /// Purpose::other.
  Communicator& moving(Purpose purpose) {
    account_->purpose = purpose;
    return *this;
  }
  /// The operations of the groups that share traffic() are told to `spans` from now on. It lives until another one is given;
  /// null: none.
  void observe(SpanLog* spans) { account_->spans = spans; }

  /// Operations come behind what was issued on `stream` from now on. They go forward between its ops, and `team` shares their
  /// work. Both arguments outlive the communicator. Called by the rank's thread once, before the first operation. Groups made by
  /// split() inherit it.
  virtual void attach(Stream& stream, Team& team) = 0;
  /// The source of memory for what is reduced or gathered often. The ranks of this host share that memory, so that operations on
  /// it copy nothing. It is `usual` when every memory is shared.
  virtual MemorySource& window(MemorySource& usual) = 0;

 private:
  /// What this group shares with the group that it was split from.
  struct Account {
    Traffic traffic;
    Purpose purpose = Purpose::other;
    SpanLog* spans = nullptr;
  };
  /// Calls issue() and counts the operation.
  Request begin(const Operation& operation);
  virtual Request issue(const Operation& operation) = 0;
  /// `members`: the group's ranks in its order, this one among them. Collective.
  virtual std::unique_ptr<Communicator> make_group(int colour, std::vector<int> members) = 0;

  std::shared_ptr<Account> account_ = std::make_shared<Account>();
};

/// A world of one rank.
std::unique_ptr<Communicator> make_self();

}  // namespace lockstep::comm
