#include "planner/formulas/network.h"

#include <algorithm>
#include <array>

namespace lockstep::planner {
namespace {

constexpr std::array<SharingStrategy, 4> strategies{{{"ddp", 2, false, "memory.zero=0"},
                                                     {"zero1", 2, false, "memory.zero=1"},
                                                     {"zero2", 2, true, "memory.zero=2"},
                                                     {"zero3", 3, true, "memory.zero=3"}}};

}  // namespace

std::span<const SharingStrategy> sharing_strategies() { return strategies; }

const SharingStrategy* find_strategy(std::string_view name) {
  const auto found = std::ranges::find(strategies, name, &SharingStrategy::name);
  return found == strategies.end() ? nullptr : &*found;
}

NetworkAnswer ask_network(const SharingStrategy& strategy, const NetworkQuestion& question) {
  const double passes = question.recompute ? 4 : 3;
  const double flops = passes * 2 * question.parameters * question.positions * question.samples;
  NetworkAnswer answer{
      .compute_seconds = flops / (question.devices * question.tflops * 1e12),
      .bytes = strategy.volume * question.bytes * question.parameters * (strategy.every_microbatch ? question.microbatches : 1),
      .bandwidth = 0};
  answer.bandwidth = answer.bytes / answer.compute_seconds * 1e-9;
  return answer;
}

double ring_broadcast_seconds(double bytes, double rate, int ranks, int messages) {
  return bytes * (messages + ranks - 2) / (messages * rate);
}

double network_share(double busbw, int nodes, int ranks) { return busbw * (nodes - 1) / (ranks - 1); }

}  // namespace lockstep::planner
