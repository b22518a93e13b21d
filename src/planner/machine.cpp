#include "planner/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/text/lower.h"
#include "planner/peaks.h"

namespace lockstep::planner {
namespace {

constexpr double kGiga = 1e9, kTera = 1e12;

struct Sizes {
  std::string_view name;
  double memory, memory_rate, inside_rate, between_rate;  // GB, and GB/s a direction
  double best_product;                                    // of the peak: the best product that was measured alone
  double attention;                                       // of that product: both passes of causal attention in tiles
  std::int64_t units;
  double host_memory, host_rate;  // GB, GB/s
  std::int64_t devices = 8;       // of a node, or of what NVLink connects
};

// FlashAttention-2 reaches 189 TFLOPS on an A100 and 328 on an H100: 0.6 and 0.33 of the peak. Its repository's pictures show
// that for causal attention, heads of 128 and samples of 16k, both passes. Ada runs the A100's instructions, and newer devices
// are taken as the H100. A V100 has xformers alone (92 TFLOPS on an A100).
constexpr double kAmpere = 0.6 / 0.869, kHopper = 0.33 / 0.803, kXformers = 92 / 271.2;

// docs/planner.md, Machines, says where these figures are from.
constexpr std::array<Sizes, 12> sizes{{{"a100", 80, 2000, 300, 25, 0.869, kAmpere, 108, 1000, 31},
                                       {"a100-40gb", 40, 1555, 300, 25, 0.869, kAmpere, 108, 1000, 31},
                                       {"h100", 80, 3350, 450, 50, 0.803, kHopper, 132, 2000, 63},
                                       // It is held to 500 W in place of 700: clocks fall with the cube root of power.
                                       {"h100-96gb", 96, 2400, 450, 50, 0.803 * 0.894, kHopper, 132, 2000, 63},
                                       {"h200", 141, 4800, 450, 50, 0.803, kHopper, 132, 2000, 63},
                                       {"b200", 180, 8000, 900, 50, 0.776, kHopper, 148, 2000, 63},
                                       {"gb200", 186, 8000, 900, 50, 0.729, kHopper, 148, 17280, 225, 72},
                                       {"mi300x", 192, 5300, 448, 50, 0.514, kHopper, 304, 2000, 63},
                                       {"l40s", 48, 864, 31, 6.25, 0.696, kAmpere, 142, 1649, 31},
                                       {"a10g", 24, 600, 31, 1.56, 0.996, kAmpere, 80, 825, 31},
                                       {"rtx4090", 24, 1008, 31, 1.56, 1.084, kAmpere, 128, 500, 31},
                                       {"v100", 32, 900, 150, 1.56, 0.752, kXformers, 80, 825, 15}}};

// What the 30 published figures of planner/published are told with: fitted to two of them (a test fits them again).
constexpr double kFittedProductShare = 0.7779, kFittedLinkShare = 0.627;

Machine from(const Sizes& size) {
  Machine machine;
  machine.name = size.name;
  machine.devices = size.devices;
  machine.memory = size.memory * kGiga;
  machine.reserved = 3 * kGiga;
  machine.peak_flops = *peak_from(size.name.substr(0, size.name.find('-'))) * kTera;
  machine.product_share = kFittedProductShare * size.best_product / sizes.front().best_product;
  machine.attention_share = size.attention * size.best_product / machine.product_share;
  machine.units = size.units;
  machine.memory_rate = size.memory_rate * kGiga;
  machine.inside_rate = size.inside_rate * kGiga;
  machine.between_rate = size.between_rate * kGiga;
  machine.link_share = kFittedLinkShare;
  machine.inside_latency = 10e-6;
  machine.between_latency = 30e-6;
  machine.host_memory = size.host_memory * kGiga;
  machine.host_rate = size.host_rate * kGiga;
  machine.disk_rate = 10 * kGiga;
  return machine;
}

}  // namespace

std::span<const Machine> machine_presets() {
  static const std::array<Machine, sizes.size()> all = [] {
    std::array<Machine, sizes.size()> machines;
    std::ranges::transform(sizes, machines.begin(), from);
    return machines;
  }();
  return all;
}

const Machine* find_machine(std::string_view name) {
  // As tables of others have them, with lines below in place of hyphens.
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 3> others{
      {{"a100-80gb", "a100"}, {"h100-80gb", "h100"}, {"h100-96gb-hbm2e-500w", "h100-96gb"}}};
  std::string spelled(name);
  std::ranges::replace(spelled, '_', '-');
  for (const auto& [other, preset] : others)
    if (spelled == other) spelled = preset;
  const auto found = std::ranges::find(machine_presets(), spelled, &Machine::name);
  return found == machine_presets().end() ? nullptr : &*found;
}

const Machine* machine_with(std::string_view gpu) {
  const std::string name = lower(gpu);
  const Machine* found = nullptr;
  for (const Machine& machine : machine_presets()) {
    bool all = true;
    for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
      end = machine.name.find('-', begin);
      all = all && name.find(machine.name.substr(begin, end - begin)) != std::string::npos;
    }
    if (all && (found == nullptr || machine.name.size() > found->name.size())) found = &machine;
  }
  return found;
}

double Machine::product_rate(double element_bytes) const {
  constexpr double bf16_bytes = 2;
  if (element_bytes <= bf16_bytes) return peak_flops * product_share;
  return peak_flops * (f32_share > 0 ? f32_share : product_share / 2);
}

Machine divided(Machine machine, std::int64_t devices) {
  const double part = static_cast<double>(machine.devices) / static_cast<double>(devices);
  for (double Machine::* shared :
       {&Machine::memory, &Machine::reserved, &Machine::peak_flops, &Machine::memory_rate, &Machine::update_rate})
    machine.*shared *= part;
  machine.devices = devices;
  return machine;
}

std::vector<Problem> check(const Machine& machine) {
  std::vector<Problem> problems;
  const auto complain = [&](std::string_view key, double value, std::string_view rule, std::string_view example) {
    problems.push_back({fmt::format("{} = {:g}: {}", key, value, rule), std::string(example)});
  };
  const auto demand = [&](std::string_view key, double value, std::string_view rule, std::string_view example) {
    if (!(value > 0)) complain(key, value, rule, example);
  };
  const auto share = [&](std::string_view key, double value) {
    if (!(value > 0 && value <= 1))
      complain(key, value, "must be above 0, at most 1: it is a part", fmt::format("{} = 0.7", key));
  };
  const auto not_negative = [&](std::string_view key, double value) {
    if (!(value >= 0)) complain(key, value, "must be 0 or above", fmt::format("{} = 0", key));
  };
  constexpr std::int64_t most = 1 << 20;
  const auto count = [&](std::string_view key, std::int64_t value) {
    if (value < 1 || value > most)
      complain(key, static_cast<double>(value), fmt::format("must be from 1 to {}", most), fmt::format("{} = 8", key));
  };
  count("nodes", machine.nodes);
  count("devices", machine.devices);
  if (problems.empty() && machine.ranks() > most)
    complain("nodes x devices", static_cast<double>(machine.ranks()), fmt::format("must be at most {}", most), "fewer nodes");
  demand("memory", machine.memory, "a device has some", "memory = \"80GB\"");
  if (machine.memory > 0 && !(machine.reserved >= 0 && machine.reserved < machine.memory))
    complain("reserved", machine.reserved, "must be 0 or above, and below the device's memory", "reserved = \"3GB\"");
  demand("peak_tflops", machine.peak_flops, "a device computes", "peak_tflops = 312");
  share("product_share", machine.product_share);
  if (machine.f32_share != 0) share("f32_share", machine.f32_share);
  not_negative("product_depth", machine.product_depth);
  share("attention_share", machine.attention_share);
  demand("memory_gbps", machine.memory_rate, "a device reads its memory", "memory_gbps = 2000");
  if (!(machine.update_rate >= 0))
    complain("update_gbps", machine.update_rate, "must be 0 or above; 0 is memory_gbps", "update_gbps = 2000");
  if (machine.devices > 1) demand("inside_gbps", machine.inside_rate, "a node's devices are connected", "inside_gbps = 300");
  if (machine.nodes > 1) demand("between_gbps", machine.between_rate, "nodes are connected", "between_gbps = 25");
  share("link_share", machine.link_share);
  not_negative("units", static_cast<double>(machine.units));
  not_negative("inside_latency_us", machine.inside_latency);
  not_negative("between_latency_us", machine.between_latency);
  not_negative("host_memory", machine.host_memory);
  not_negative("host_gbps", machine.host_rate);
  not_negative("disk_gbps", machine.disk_rate);
  return problems;
}

}  // namespace lockstep::planner
