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
  double reserved = 0;         ///< of it, what its driver and its libraries take
  double peak_flops = 0;       ///< of a device, for products of bf16
  double product_share = 0;    ///< of the peak, what a step's products reach whose tiles and waves are full
  double f32_share = 0;        ///< likewise of products of f32; 0: half of product_share
  double product_depth = 0;    ///< terms, whose time each sum of a product takes besides its own
  double attention_share = 1;  ///< of such a product's rate, what attention in tiles reaches
  std::int64_t units = 0;      ///< that compute a tile each; 0: products have no waves
  double memory_rate = 0;      ///< of a device's memory
  double update_rate = 0;      ///< of it, where what is read is written back in place; 0: memory_rate
  double inside_rate = 0;      ///< of a device to the others of its node, one way
  double between_rate = 0;     ///< of a device's share of the network, one way
  double link_share = 1;       ///< what of these collectives reach
  bool joins_links = false;    ///< collectives leave a node by the links of all their ranks there; false: by one rank's
  double inside_latency = 0;   ///< seconds until a collective begins to move anything
  double between_latency = 0;
  double host_memory = 0;  ///< of a node
  double host_rate = 0;    ///< between a device and the host's memory, one way
  double disk_rate = 0;    ///< of a node's disks; 0: it has none

  std::int64_t ranks() const { return nodes * devices; }
  double usable_memory() const { return memory - reserved; }
  /// FLOPs a second of products of elements of so many bytes.
  double product_rate(double element_bytes) const;
  /// Bytes a second of updates, and of sums that are added to where they lie: no line is fetched only to be overwritten.
  double in_place_rate() const { return update_rate > 0 ? update_rate : memory_rate; }
  double attention_rate(double element_bytes) const { return attention_share * product_rate(element_bytes); }
};

/// a100, h100, b200 and others: nodes of eight (gb200: of 72), of which there are `nodes` only when the user says so.
std::span<const Machine> machine_presets();
/// Null: there is none of the name.
const Machine* find_machine(std::string_view name);
/// The preset whose name's words are all in a GPU's, the longest: "NVIDIA A100-SXM4-40GB" is a100-40gb. Null: none.
const Machine* machine_with(std::string_view gpu);

/// What each of `devices` on a node gets where they share what its devices have now, as ranks share the cores of a host. Between
/// them data moves as before.
Machine divided(Machine machine, std::int64_t devices);

/// Everything that keeps the machine from existing; empty: nothing.
std::vector<Problem> check(const Machine& machine);

}  // namespace lockstep::planner
