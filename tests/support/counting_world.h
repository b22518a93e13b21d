#pragma once

// A group of ranks that counts what its collectives carry: bytes of fp32 and bf16, which weights and gradients are.

#include <memory>

#include "comm/communicator.h"

namespace lockstep::support {

/// Bytes of the whole tensors, once each.
struct Carried {
  std::int64_t reduced = 0;    ///< all_reduce
  std::int64_t scattered = 0;  ///< reduce_scatter
  std::int64_t gathered = 0;   ///< all_gather
};

class CountingWorld final : public comm::Communicator {
 public:
  /// Both outlive this.
  CountingWorld(comm::Communicator& world, Carried& carried) : world_(world), carried_(carried) {}

  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  void attach(Stream& stream, Team& team) override { world_.attach(stream, team); }
  MemorySource& window(MemorySource& usual) override { return world_.window(usual); }

 private:
  comm::Request issue(const comm::Operation& operation) override {
    using comm::Collective;
    const auto& [kind, reduction, dtype, root, count, in, out, counts, out_counts] = operation;
    const std::int64_t bytes =
        dtype == DType::f32 || dtype == DType::bf16 ? count * static_cast<std::int64_t>(size_of(dtype)) : 0;
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
      case Collective::broadcast:
        return world_.broadcast(out, root);
      case Collective::barrier:
        world_.barrier();
        return {};
      default:
        throw BrokenRule("an operation that training on data-parallel ranks has");
    }
  }
  std::unique_ptr<comm::Communicator> make_group(int /*colour*/, std::vector<int> /*members*/) override {
    throw BrokenRule("a counted world is not split");
  }

  comm::Communicator& world_;
  Carried& carried_;
};

}  // namespace lockstep::support
