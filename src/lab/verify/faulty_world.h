#pragma once

// Ranks that do something other than an operation asks for, where a planted fault says so.

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.h"

namespace lockstep::lab {

/// Replaces an operation; none: the operation is done as asked for. `number`: the operations that this rank was asked for before.
using Fault =
    std::function<std::optional<comm::Request>(const comm::Operation& operation, int number, comm::Communicator& world)>;

/// A world of ranks and all groups that are split from it.
class FaultyWorld final : public comm::Communicator {
 public:
  /// `world` outlives this.
  FaultyWorld(comm::Communicator& world, Fault fault) : world_(world), fault_(std::move(fault)) {}
  FaultyWorld(std::unique_ptr<comm::Communicator> group, Fault fault)
      : owned_(std::move(group)), world_(*owned_), fault_(std::move(fault)) {}

  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  void attach(Stream& stream, Team& team) override { world_.attach(stream, team); }
  MemorySource& window(MemorySource& usual) override { return world_.window(usual); }

 private:
  comm::Request issue(const comm::Operation& operation) override {
    if (std::optional<comm::Request> other = fault_(operation, number_++, world_)) return std::move(*other);
    return pass(operation, operation.reduction, world_);
  }
  std::unique_ptr<comm::Communicator> make_group(int colour, std::vector<int> members) override {
    const auto place = std::ranges::find(members, rank()) - members.begin();
    return std::make_unique<FaultyWorld>(world_.split(colour, static_cast<int>(place)), fault_);
  }

 public:
  /// Does the operation as asked for, but with `reduction`.
  static comm::Request pass(const comm::Operation& operation, comm::Reduction reduction, comm::Communicator& world) {
    using comm::Collective;
    const comm::Operation& o = operation;
    switch (o.kind) {
      case Collective::all_reduce:
        return world.all_reduce(o.out, reduction);
      case Collective::reduce_scatter:
        return world.reduce_scatter(o.out, o.in, o.counts, reduction);
      case Collective::all_gather:
        return world.all_gather(o.out, o.in, o.counts);
      case Collective::reduce:
        return world.reduce(o.out, reduction, o.root);
      case Collective::broadcast:
        return world.broadcast(o.out, o.root);
      case Collective::gather:
        return world.gather(o.out, o.in, o.root);
      case Collective::scatter:
        return world.scatter(o.out, o.in, o.root);
      case Collective::all_to_all:
        return world.all_to_all(o.out, o.out_counts, o.in, o.counts);
      case Collective::send:
        return world.send(o.in, o.root);
      case Collective::receive:
        return world.receive(o.out, o.root);
      case Collective::barrier:
        world.barrier();
        return {};
    }
    return {};
  }

 private:
  std::unique_ptr<comm::Communicator> owned_;
  comm::Communicator& world_;
  Fault fault_;
  int number_ = 0;
};

}  // namespace lockstep::lab
