#pragma once

// A group of ranks that counts what its collectives carry: bytes of fp32 and bf16, which weights and gradients are.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace lockstep::support {

/// Bytes of the whole tensors, once each; of messages and exchanges those that this rank sends.
struct Carried {
  std::int64_t reduced = 0;    ///< all_reduce
  std::int64_t scattered = 0;  ///< reduce_scatter
  std::int64_t gathered = 0;   ///< all_gather
  std::int64_t exchanged = 0;  ///< all_to_all, to others
  std::int64_t sent = 0;       ///< send
};

class CountingWorld final : public comm::Communicator {
 public:
  /// Both outlive this.
  CountingWorld(comm::Communicator& world, Carried& carried) : world_(world), carried_(carried) {}
  /// Keeps the group.
  CountingWorld(std::unique_ptr<comm::Communicator> group, Carried& carried)
      : group_(std::move(group)), world_(*group_), carried_(carried) {}

  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  void attach(Stream& stream, Team& team) override { world_.attach(stream, team); }
  MemorySource& window(MemorySource& usual) override { return world_.window(usual); }

 private:
  comm::Request issue(const comm::Operation& operation) override {
    using comm::Collective;
    const auto& [kind, reduction, dtype, root, count, in, out, counts, out_counts] = operation;
    const std::int64_t size = dtype == DType::f32 || dtype == DType::bf16 ? static_cast<std::int64_t>(size_of(dtype)) : 0;
    const std::int64_t bytes = count * size;
    switch (kind) {
      case Collective::all_reduce:
        carried_.reduced += bytes;
        return world_.all_reduce(out, reduction);
      case Collective::reduce_scatter:
        carried_.scattered += bytes;
        return world_.reduce_scatter(out, in, counts, reduction);
      case Collective::all_gather:
        carried_.gathered += bytes;
        return world_.all_gather(out, in, counts);
      case Collective::all_to_all:
        carried_.exchanged += (in.elements() - counts[static_cast<std::size_t>(rank())]) * size;
        return world_.all_to_all(out, out_counts, in, counts);
      case Collective::send:
        carried_.sent += bytes;
        return world_.send(in, root);
      case Collective::receive:
        return world_.receive(out, root);
      case Collective::broadcast:
        return world_.broadcast(out, root);
      case Collective::barrier:
        world_.barrier();
        return {};
      default:
        throw BrokenRule("an operation that training has");
    }
  }
  std::unique_ptr<comm::Communicator> make_group(int colour, std::vector<int> members) override {
    const auto place = std::ranges::find(members, rank()) - members.begin();
    return std::make_unique<CountingWorld>(world_.split(colour, static_cast<int>(place)), carried_);
  }

  std::unique_ptr<comm::Communicator> group_;
  comm::Communicator& world_;
  Carried& carried_;
};

}  // namespace lockstep::support
