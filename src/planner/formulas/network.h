#pragma once

// Whether a network keeps up with devices that share a model's state: seconds of a step's collectives beside seconds of its
// products. Collectives that hide behind the products cost nothing, so the network has to finish in their time.

#include <span>
#include <string_view>

namespace lockstep::planner {

/// How ranks share the state, and the bytes that this moves.
struct SharingStrategy {
  std::string_view name;
  double volume;              ///< of a step, in multiples of the model's bytes (Rajbhandari et al. 2020, section 7)
  bool every_microbatch;      ///< whether the volume is moved for each micro-batch
  std::string_view settings;  ///< settings that choose the strategy
};
/// ddp, zero1, zero2, zero3.
std::span<const SharingStrategy> sharing_strategies();
/// The strategy of this name; null: there is none.
const SharingStrategy* find_strategy(std::string_view name);

struct NetworkQuestion {
  double parameters = 0;
  double bytes = 2;  ///< of a parameter that is sent
  double devices = 0;
  double samples = 0;    ///< of a step, over all devices
  double positions = 0;  ///< of a sample
  double tflops = 0;     ///< a device's rate in products
  double microbatches = 1;
  bool recompute = false;  ///< whether the forward pass is computed again
};

struct NetworkAnswer {
  double compute_seconds;
  double bytes;      ///< moved by each device's share of the network in a step
  double bandwidth;  ///< GB/s at which moving takes as long as computing
  double seconds(double bus_gbps) const { return bytes / (bus_gbps * 1e9); }
  bool network_bound(double bus_gbps) const { return seconds(bus_gbps) > compute_seconds; }
};
NetworkAnswer ask_network(const SharingStrategy& strategy, const NetworkQuestion& question);

/// Seconds of a broadcast of `bytes` round a ring of `ranks`, whose links carry `rate` bytes/s. Each rank passes every message on
/// once it has the whole of it. With one message that is the naive (k - 1) N / B; with many `messages` it comes near N / B.
double ring_broadcast_seconds(double bytes, double rate, int ranks, int messages);
/// The part of its node's network that each of `ranks` on `nodes` gets in an all-reduce of bus bandwidth `busbw`. The all-reduce
/// runs inside nodes, and then between them.
double network_share(double busbw, int nodes, int ranks);

}  // namespace lockstep::planner
