#pragma once

// What a user asks of a plan: its fields as they are given, before it is known what follows from the ranks. Settings of a run and
// the words of a layout are both read into it (layout/plan_fields). Plans are made of it here alone.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/values/choice.h"
#include "layout/parallel_plan.h"
#include "layout/pipeline/split.h"

namespace lockstep {
namespace layout {

/// Where a kind of state lies between its uses, as the user asks for it.
enum class OffloadTo : std::uint8_t { none, cpu, nvme };

struct ParallelWish {
  std::optional<std::int64_t> dp;  ///< null: the ranks that are left
  std::int64_t tp = 1, cp = 1;
  ContextMethod context = ContextMethod::allgather;
  bool sequence = false, allow_tp_across_hosts = false;
  std::int64_t pp = 1;
  std::string schedule = "1f1b";                   ///< a name, or file:TABLE.csv
  std::optional<std::int64_t> virtual_stages;      ///< null: as many as the schedule has
  std::optional<std::vector<std::int64_t>> split;  ///< layers of each stage; null: balanced
  ReduceEvery reduce = ReduceEvery::step;
  std::int64_t bucket_bytes = 25 << 20;
  bool overlap = true;
  std::optional<std::int64_t> ranks_per_host;  ///< null: as they were started
  bool operator==(const ParallelWish&) const = default;
};

struct MemoryWish {
  Recompute recompute;
  std::optional<std::int64_t> zero;  ///< null: what train.backend names
  CutOver zero_group = CutOver::all;
  std::int64_t prefetch = 1;
  bool reshard_after_forward = true;
  OffloadTo offload_optimizer = OffloadTo::none, offload_params = OffloadTo::none, offload_activations = OffloadTo::none;
  Tiles tiles;  ///< with larger_than 0: see max_tile_bytes
  std::int64_t max_tile_bytes = 0;
  bool operator==(const MemoryWish&) const = default;
};

inline constexpr std::int64_t most_gas = 1 << 20;  ///< micro-batches of a step

struct PlanWish {
  ParallelWish parallel = {};
  MemoryWish memory = {};
  std::int64_t gas = 1;
  bool canonical = false;
  bool operator==(const PlanWish&) const = default;
};

/// The plan of `trainers` ranks, without their hosts. Without `dp` its degree is that of the ranks that the other degrees leave,
/// at least 1. Weights and activations that are offloaded lie on a disk until place_offloaded(). The optimizer's state does not,
/// as it combines with everything.
ParallelPlan plan_of(const PlanWish& wish, std::int64_t trainers);
/// Sets where the plan keeps what is offloaded. `on_host`: a device's memory is the host's, so what is offloaded to the host
/// stays where it is.
void place_offloaded(ParallelPlan& plan, const MemoryWish& memory, bool on_host);
/// The wish that makes the plan. Fields that follow from the rest of it are null.
PlanWish wish_of(const ParallelPlan& plan);

}  // namespace layout

template <>
struct Choice<layout::ContextMethod> {
  using enum layout::ContextMethod;
  static constexpr auto all = std::to_array<Named<layout::ContextMethod>>(
      {{"allgather", allgather}, {"ulysses", ulysses}, {"ring", ring}, {"ulysses+ring", ulysses_ring}});
};
template <>
struct Choice<layout::ReduceEvery> {
  using enum layout::ReduceEvery;
  static constexpr auto all = std::to_array<Named<layout::ReduceEvery>>({{"step", step}, {"microbatch", microbatch}});
};
template <>
struct Choice<layout::CutOver> {
  static constexpr auto all =
      std::to_array<Named<layout::CutOver>>({{"all", layout::CutOver::all}, {"node", layout::CutOver::host}});
};
template <>
struct Choice<layout::OffloadTo> {
  using enum layout::OffloadTo;
  static constexpr auto all = std::to_array<Named<layout::OffloadTo>>({{"none", none}, {"cpu", cpu}, {"nvme", nvme}});
};

/// Layers of each stage: "4,4,3,1".
template <>
struct Form<std::vector<std::int64_t>> {
  static constexpr std::string_view rule = "the numbers of layers of the stages", remedy = "parallel.split=4,4,3,1, or null";
  static std::optional<std::vector<std::int64_t>> read(std::string_view text) { return layout::split_from(text); }
  static std::string print(const std::vector<std::int64_t>& split) { return layout::to_string(split); }
};
template <>
struct Form<layout::Recompute> {
  static constexpr std::string_view rule = "none, selective, full or every:k, k blocks from 1 on",
                                    remedy = "memory.recompute=full keeps least of the usual ones";
  static std::optional<layout::Recompute> read(std::string_view text) { return layout::recompute_from(text); }
  static std::string print(const layout::Recompute& recompute) { return layout::to_string(recompute); }
};
template <>
struct Form<layout::Tiles> {
  static constexpr std::string_view rule = "INxOUT, tiles of in-features and of out-features from 1 on",
                                    remedy = "memory.tiles=1x4, or 1x1 for whole matrices";
  static std::optional<layout::Tiles> read(std::string_view text) { return layout::tiles_from(text); }
  static std::string print(const layout::Tiles& tiles) { return layout::to_string(tiles); }
};

}  // namespace lockstep
