#pragma once

// What the planner knows of a machine.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace lockstep::planner {

/// Rates in bytes or FLOPs a second.
struct Machine {
  std::string name = "machine";
  std::int64_t nodes = 1;
  std::int64_t devices = 8;    ///< of a node
  double memory = 0;           ///< of a device
  double reserved = 0;         ///< the part of `memory` that its driver and its libraries take
  double peak_flops = 0;       ///< of a device, for products of bf16
  double product_share = 0;    ///< the share of the peak that products reach with full tiles and waves
  double f32_share = 0;        ///< the same of f32 products; 0: half of product_share
  double product_depth = 0;    ///< each sum of a product costs as much time as so many more terms
  double attention_share = 1;  ///< the share of a product's rate that attention in tiles reaches
  std::int64_t units = 0;      ///< that compute a tile each; 0: products have no waves
  double memory_rate = 0;      ///< of a device's memory
  double update_rate = 0;      ///< of memory, for values read and written back in place; 0: memory_rate
  double inside_rate = 0;      ///< of a device to the others of its node, one way
  double between_rate = 0;     ///< of a device's share of the network, one way
  double link_share = 1;       ///< the share of these rates that collectives reach
  bool joins_links = false;    ///< collectives leave a node by the links of all their ranks there; false: by one rank's
  double inside_latency = 0;   ///< seconds until a collective begins to move anything
  double between_latency = 0;
  double host_memory = 0;  ///< of a node
  double host_rate = 0;    ///< between a device and the host's memory, one way
  double disk_rate = 0;    ///< of a node's disks; 0: it has none

  std::int64_t ranks() const { return nodes * devices; }
  double usable_memory() const { return memory - reserved; }
  /// FLOPs/s of products whose elements have `element_bytes`.
  double product_rate(double element_bytes) const;
  /// Bytes/s of updates, and of sums that are added in place: no cache line is fetched only to be overwritten.
  double in_place_rate() const { return update_rate > 0 ? update_rate : memory_rate; }
  double attention_rate(double element_bytes) const { return attention_share * product_rate(element_bytes); }
};

/// a100, h100, b200 and others: nodes of eight devices (gb200: 72). The number of nodes is left to the user.
std::span<const Machine> machine_presets();
/// The preset of this name; null: there is none.
const Machine* find_machine(std::string_view name);
/// The longest preset whose name's words are all in a GPU's name: "NVIDIA A100-SXM4-40GB" is a100-40gb. Null: none.
const Machine* machine_with(std::string_view gpu);

/// The machine with `devices` on a node, which share what its devices have now, as ranks share the cores of a host. Links between
/// them are as before.
Machine divided(Machine machine, std::int64_t devices);

/// Every reason why the machine cannot exist; empty: none.
std::vector<Problem> check(const Machine& machine);

}  // namespace lockstep::planner
