#pragma once

// The parts with which one rank computes.

#include <memory>
#include <utility>

#include "comm/communicator.h"
#include "device/runtime.h"
#include "ops/open_ops.h"

namespace lockstep::support {

/// Runtime, stream, kernels and world of one rank.
struct Machine {
  explicit Machine(int threads = 2, ops::Isa isa = ops::Isa::automatic)
      : runtime(open_runtime({}, {.threads = threads})),
        stream(runtime->make_stream()),
        ops(ops::make_ops(*runtime, *stream, {.cpu = {.isa = isa}})),
        world(comm::make_self()) {}
  Machine(std::unique_ptr<Runtime> device, std::unique_ptr<Stream> order, std::unique_ptr<ops::Ops> kernels)
      : runtime(std::move(device)), stream(std::move(order)), ops(std::move(kernels)), world(comm::make_self()) {
    world->attach(*stream, runtime->team());
  }
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<ops::Ops> ops;
  std::unique_ptr<comm::Communicator> world;
};

}  // namespace lockstep::support
