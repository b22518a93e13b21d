#include "lab/machine_probe.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/timer.h"
#include "io/spill_file.h"
#include "lab/collectives/bench_collectives.h"
#include "lab/machine.h"
#include "lab/process.h"
#include "lab/step/step_rates.h"
#include "ops/cpu/options.h"

namespace lockstep::lab {
namespace {

/// What a group of ranks reaches in exchanges: bytes a second, and seconds.
struct Link {
  double rate = 0, latency = 0;
};
/// As planner/exchange has it: an all-reduce is two passes around the ring, each of which takes the latency and its bytes.
Link link_between(const ProbeOptions& options, Runtime& runtime, comm::Communicator& ranks) {
  if (ranks.size() == 1) return {};
  CollectiveReport report;
  const CollectiveBenchOptions bench{.ops = {comm::Collective::all_reduce},
                                     .bytes = {options.small_sum, options.large_sum},
                                     .trials = options.trials,
                                     .warmups = 2};
  bench_collectives(bench, runtime, ranks, report);
  const CollectiveRow& large = report.rows.at(1);
  const double bytes = static_cast<double>(large.bytes) * bus_factor(large.op, ranks.size());
  // Other programs only ever slow a sum of many bytes.
  return {.rate = bytes / std::ranges::min(large.slowest), .latency = report.rows.at(0).median_seconds() / 2};
}

/// Bytes a second of a disk that is written and read, past the page cache where the file system allows that.
double disk_rate(const io::Path& folder, std::size_t bytes, MemorySource& memory) {
  constexpr std::size_t piece = 1 << 20;
  io::SpillFile file(folder, bytes);
  const Memory buffer = memory.allocate(piece + io::SpillFile::block);
  const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
  const std::span moved(buffer.data() + (io::SpillFile::block - address % io::SpillFile::block), piece);
  const double start = now_seconds();
  for (std::size_t at = 0; at < bytes; at += piece) file.finish(file.begin_write(at, moved));
  for (std::size_t at = 0; at < bytes; at += piece) file.finish(file.begin_read(at, moved));
  return 2 * static_cast<double>(bytes) / (now_seconds() - start);
}

}  // namespace

planner::Machine probe_machine(const ProbeOptions& options, Runtime& runtime, comm::Communicator& world,
                               comm::Communicator& node) {
  world.barrier();
  const double multiply_adds = fma_peak(runtime.team());
  world.barrier();
  const StepRates f32 = measure_step_rates(runtime, DType::f32, options.steps);
  const StepRates bf16 = measure_step_rates(runtime, DType::bf16, options.steps);
  const double memory_rate = triad_bandwidth(runtime.team(), runtime.memory(), node) / node.size();
  const double update_rate = update_bandwidth(runtime.team(), runtime.memory(), node) / node.size();
  const Link inside = link_between(options, runtime, node);
  const Link between = node.size() < world.size() ? link_between(options, runtime, world) : Link{};
  const double disk = node.rank() == 0 ? disk_rate(options.folder, options.disk_bytes, runtime.memory()) : 0;
  std::array<double, 13> figures{
      multiply_adds,     bf16.product_share,  f32.product_share, memory_rate,        inside.rate,
      inside.latency,    between.rate,        between.latency,   disk * node.size(), static_cast<double>(free_memory()),
      f32.product_depth, f32.attention_share, update_rate};
  world.host().all_reduce(view(std::span<double>(figures), Shape{std::ssize(figures)}), comm::Reduction::mean).wait();
  const double times = ops::bf16_multiply_adds();
  planner::Machine machine;
  machine.nodes = world.size() / node.size();
  machine.devices = node.size();
  machine.memory = figures[9] / node.size();
  machine.peak_flops = times * figures[0];
  machine.product_share = std::min(1.0, figures[1] / times);
  machine.f32_share = std::min(1.0, figures[2] / times);
  machine.product_depth = figures[10];
  machine.attention_share = figures[11];
  machine.memory_rate = figures[3];
  machine.update_rate = figures[12];
  machine.inside_rate = figures[4];
  machine.inside_latency = figures[5];
  machine.between_rate = figures[6];
  machine.between_latency = figures[7];
  machine.disk_rate = figures[8];
  return machine;
}

}  // namespace lockstep::lab
