#include "lab/verify/planted_faults.h"

#include <cstddef>
#include <utility>

#include "base/error.h"

namespace lockstep::lab {
namespace {

using comm::Collective, comm::Operation;
using Instead = std::optional<comm::Request>;

/// Smaller sums are those of losses and norms, not of gradients.
constexpr std::int64_t least_elements = 2000;

bool adds_gradients(const Operation& operation) {
  const bool adds = operation.kind == Collective::all_reduce || operation.kind == Collective::reduce_scatter;
  return adds && operation.dtype == DType::f32 && operation.count >= least_elements;
}

/// Loses every third bucket, from the second on.
Fault drop_bucket() {
  return [seen = 0](const Operation& operation, int, comm::Communicator&) mutable {
    return adds_gradients(operation) && seen++ % 3 == 1 ? Instead(std::in_place) : std::nullopt;
  };
}

Fault add_twice() {
  return [seen = 0](const Operation& operation, int, comm::Communicator& world) mutable {
    if (adds_gradients(operation) && seen++ % 3 == 1) world.all_reduce(operation.out, comm::Reduction::sum).wait();
    return Instead();
  };
}

Fault mean_for_sum() {
  return [](const Operation& operation, int, comm::Communicator& world) {
    return adds_gradients(operation) ? Instead(FaultyWorld::pass(operation, comm::Reduction::mean, world)) : std::nullopt;
  };
}

/// From the first update on, every third gather leaves the old weights.
Fault stale_gather() {
  return [seen = 0, updates = false](const Operation& operation, int, comm::Communicator&) mutable {
    updates = updates || adds_gradients(operation);
    const bool weights =
        operation.kind == Collective::all_gather && operation.dtype == DType::f32 && operation.count >= least_elements;
    return weights && updates && seen++ % 3 == 1 ? Instead(std::in_place) : std::nullopt;
  };
}

/// A stage goes on with what an earlier message left there.
Fault lost_message() {
  return [seen = 0](const Operation& operation, int, comm::Communicator& world) mutable {
    if (operation.kind != Collective::receive || operation.out.elements() < least_elements || seen++ % 3 != 2) return Instead();
    std::vector<std::byte> elsewhere(operation.out.bytes());
    Tensor lost = operation.out;
    lost.data = elsewhere.data();
    world.receive(lost, operation.root).wait();
    return Instead(std::in_place);
  };
}

}  // namespace

const std::vector<PlantedFault>& planted_faults() {
  static const std::vector<PlantedFault> all{
      {"drop-bucket", "every third bucket of gradients is not added over the ranks", "dp=2,bucket=65536", drop_bucket},
      {"add-twice", "every third bucket of gradients is added over the ranks twice", "dp=2,bucket=65536", add_twice},
      {"mean-for-sum", "the ranks' gradients are averaged, though they are shares of one mean", "dp=2,bucket=65536",
       mean_for_sum},
      {"stale-gather", "ranks go on with weights of the step before", "dp=2,zero=1", stale_gather},
      {"lost-message", "a pipeline stage does not get some of its messages", "pp=2,gas=4", lost_message}};
  return all;
}

const PlantedFault& planted_fault(std::string_view name) {
  for (const PlantedFault& fault : planted_faults())
    if (fault.name == name) return fault;
  throw BrokenRule("a planted fault is one of planted_faults()");
}

}  // namespace lockstep::lab
