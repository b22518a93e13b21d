#pragma once

// Whether a network keeps up with devices that share a model's state: seconds of a step's collectives beside seconds of its
// products. What hides behind the products costs nothing; the network has to finish in their time.

#include <span>
#include <string_view>

namespace lockstep::planner {

/// How ranks share the state, and what that moves.
struct SharingStrategy {
  std::string_view name;
  double volume;              ///< of a step, in the bytes of the model (Rajbhandari et al. 2020, section 7)
  bool every_microbatch;      ///< the volume is of each micro-batch
  std::string_view settings;  ///< that choose it
};
/// ddp, zero1, zero2, zero3.
std::span<const SharingStrategy> sharing_strategies();
/// Null: there is none of the name.
const SharingStrategy* find_strategy(std::string_view name);

struct NetworkQuestion {
  double parameters = 0;
  double bytes = 2;  ///< of a parameter, as it is sent
  double devices = 0;
  double samples = 0;    ///< of a step, over all devices
  double positions = 0;  ///< of a sample
  double tflops = 0;     ///< that a device reaches
  double microbatches = 1;
  bool recompute = false;  ///< the forward pass is made again
};

struct NetworkAnswer {
  double compute_seconds;
  double bytes;      ///< that each device's share of the network moves in a step
  double bandwidth;  ///< GB/s at which moving takes as long as computing
  double seconds(double bus_gbps) const { return bytes / (bus_gbps * 1e9); }
  bool network_bound(double bus_gbps) const { return seconds(bus_gbps) > compute_seconds; }
};
NetworkAnswer ask_network(const SharingStrategy& strategy, const NetworkQuestion& question);

/// Seconds of a broadcast of `bytes` round a ring of `ranks`, whose links carry `rate` bytes/s. Each rank passes on every message
/// once it has it whole. With one of the `messages` that is the naive (k - 1) N / B; with many it comes near N / B.
double ring_broadcast_seconds(double bytes, double rate, int ranks, int messages);
/// What each of `ranks` on `nodes` gets of its node's network in an all_reduce inside nodes and then between them, of `busbw`.
double network_share(double busbw, int nodes, int ranks);

}  // namespace lockstep::planner
