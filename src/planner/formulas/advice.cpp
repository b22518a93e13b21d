#include "planner/formulas/advice.h"

#include <fmt/format.h>

#include "base/units.h"
#include "planner/formulas/memory_rules.h"

namespace lockstep::planner {
namespace {

std::string bytes_text(double bytes) {
  return bytes < 0x1p63 ? format_bytes(static_cast<std::uint64_t>(bytes)) : fmt::format("{:.3g} EiB", bytes / 0x1p60);
}

class Adviser {
 public:
  explicit Adviser(const AdviceQuestion& question)
      : question_(question),
        model_(mixed_adam_bytes * question.parameters + question.activations),
        node_memory_(question.device_memory * static_cast<double>(question.devices)) {}

  Advice advise() const {
    Advice advice = question_.nodes > 1 ? several_nodes() : question_.devices > 1 ? one_node() : one_device();
    advice.besides.insert(
        advice.besides.begin(),
        fmt::format("TP <= GPUS_PER_NODE: tensor parallelism exchanges activations in every layer, so parallel.tp <= {}",
                    question_.devices));
    if (question_.nodes > 1 && !layer_fits())
      advice.besides.push_back("the largest layer does not fit onto a device: " + layer_reason() +
                               "; if not ZeRO: must use TP; with ZeRO: MCT (memory.tiles)");
    return advice;
  }

 private:
  bool layer_fits() const { return 2 * question_.largest_layer <= question_.device_memory; }
  bool fits_device() const { return model_ <= question_.device_memory; }
  bool fits_node() const { return model_ <= node_memory_; }
  std::string layer_reason() const {
    return fmt::format("2 x {} of the largest layer against {} of a device", bytes_text(question_.largest_layer),
                       bytes_text(question_.device_memory));
  }
  std::string reason(double memory, std::string_view whose) const {
    return fmt::format("18 B x {} parameters + {} of activations = {} against {} of a {}", format_si(question_.parameters),
                       bytes_text(question_.activations), bytes_text(model_), bytes_text(memory), whose);
  }

  Advice one_device() const {
    if (!layer_fits())
      return {.setting = "Single GPU",
              .condition = "largest layer does NOT fit",
              .answer = "ZeRO + Enable Memory Centric Tiling (MCT)",
              .reason = layer_reason(),
              .settings = "memory.offload_params=cpu memory.offload_optimizer=cpu memory.tiles=1x4",
              .besides = {}};
    if (fits_device())
      return {.setting = "Single GPU",
              .condition = "model fits",
              .answer = "Normal use",
              .reason = reason(question_.device_memory, "device"),
              .settings = "parallel.dp=1",
              .besides = {}};
    return {.setting = "Single GPU",
            .condition = "model does NOT fit",
            .answer = "ZeRO + Offload CPU (or, optionally, NVMe)",
            .reason = reason(question_.device_memory, "device"),
            .settings = "memory.offload_optimizer=cpu memory.offload_params=cpu (or nvme, with memory.nvme_path)",
            .besides = {}};
  }

  Advice one_node() const {
    if (!layer_fits())
      return {.setting = "Single node / multi-GPU",
              .condition = "largest layer does NOT fit",
              .answer = "if not ZeRO: must use TP; with ZeRO: MCT",
              .reason = layer_reason(),
              .settings = fmt::format("parallel.tp={}, or memory.zero=3 memory.tiles=1x4", question_.devices),
              .besides = {}};
    if (fits_device())
      return {.setting = "Single node / multi-GPU",
              .condition = "model fits onto a single GPU",
              .answer = "DDP; ZeRO",
              .reason = reason(question_.device_memory, "device"),
              .settings = fmt::format("parallel.dp={}, with memory.zero=1 where memory is short", question_.devices),
              .besides = {}};
    return {.setting = "Single node / multi-GPU",
            .condition = "model does NOT fit onto a single GPU",
            .answer =
                "1. PP 2. ZeRO 3. TP. With sufficiently fast connectivity between nodes, these three strategies should be "
                "comparable. Otherwise, PP > ZeRO ≃ TP.",
            .reason = reason(question_.device_memory, "device"),
            .settings = fmt::format("parallel.pp={0}, or memory.zero=3, or parallel.tp={0}", question_.devices),
            .besides = {question_.fast_inside ? "the connection is fast: the three should be comparable"
                                              : "the connection is slow: PP > ZeRO ≃ TP"}};
  }

  Advice several_nodes() const {
    if (fits_node())
      return {.setting = "Multi-node",
              .condition = "model fits a single node",
              .answer = "first try ZeRO with multiple replicas (hpZ / HYBRID_SHARD): ZeRO inside node, DDP across",
              .reason = reason(node_memory_, "node"),
              .settings = "memory.zero=3 memory.zero_group=node",
              .besides = {}};
    if (question_.fast_between)
      return {.setting = "Multi-node",
              .condition = "fast inter-node",
              .answer =
                  "ZeRO (virtually NO modifications), or PP+ZeRO+TP+DP (less communication, at the cost of MAJOR "
                  "modifications)",
              .reason = reason(node_memory_, "node"),
              .settings = fmt::format("memory.zero=3, or parallel.tp={} parallel.pp={} memory.zero=1", question_.devices,
                                      question_.nodes),
              .besides = {}};
    return {.setting = "Multi-node",
            .condition = "slow inter-node and still low on GPU memory",
            .answer = "DP + PP + TP + ZeRO-1",
            .reason = reason(node_memory_, "node"),
            .settings = fmt::format("parallel.tp={} parallel.pp={} memory.zero=1", question_.devices, question_.nodes),
            .besides = {}};
  }

  const AdviceQuestion& question_;
  double model_, node_memory_;
};

}  // namespace

Advice advise(const AdviceQuestion& question) { return Adviser(question).advise(); }

}  // namespace lockstep::planner
