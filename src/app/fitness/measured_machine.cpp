// `lockstep doctor --machine-file FILE`: this machine as the planner wants it.

#include <fmt/format.h>

#include "app/cli/process.h"
#include "app/fitness/doctor.h"
#include "app/plan/machine_file.h"
#include "app/start/plan.h"
#include "base/error.h"
#include "base/units.h"
#include "comm/text.h"

namespace lockstep::app {
namespace {

/// What one rank of `ranks` on a host gets.
std::string device_line(const planner::Machine& machine, std::int64_t ranks) {
  const planner::Machine of = planner::divided(machine, ranks);
  const auto tflops = [](double flops) { return flops / 1e12; };
  return fmt::format(
      "  one of {:<3} peak {:.3f} TFLOPS, products {:.3f} in bf16 and {:.3f} in fp32; memory {} at {:.1f} GB/s, in place "
      "{:.1f}\n",
      ranks, tflops(of.peak_flops), tflops(of.product_rate(2)), tflops(of.product_rate(4)),
      format_bytes(static_cast<std::uint64_t>(of.memory)), 1e-9 * of.memory_rate, 1e-9 * of.in_place_rate());
}

io::Path folder_of(const std::string& path) {
  const io::Path folder = io::Path(path).parent_path();
  return folder.empty() ? io::Path(".") : folder;
}

}  // namespace

planner::Machine measured_machine(const std::string& path, lab::ProbeOptions options, Session& session) {
  comm::Communicator& world = session.world();
  const std::vector<std::string> hosts = comm::all_texts(world, host_name());
  const int each = ranks_per_host(hosts);
  if (each == 0) {
    throw UserError(fmt::format("--machine-file {}: hosts have different numbers of ranks, or not in their order", path),
                    "start as many on each, one host after another");
  }
  const auto node = world.split(world.rank() / each, world.rank());
  options.folder = folder_of(path);
  planner::Machine machine = lab::probe_machine(options, session.runtime(), world, *node);
  machine.name = hosts.front();
  return machine;
}

std::string write_machine_file(const std::string& path, const planner::Machine& machine) {
  io::replace_file(path, machine_text(machine));
  std::string text = fmt::format("machine: {} x {} devices, each a rank's share of a host's cores\n{}", machine.nodes,
                                 machine.devices, device_line(machine, 1));
  if (machine.devices > 1) {
    text +=
        fmt::format("{}  between ranks of a host {:.2f} GB/s, {} until anything moves\n", device_line(machine, machine.devices),
                    1e-9 * machine.inside_rate, format_seconds(machine.inside_latency));
  }
  return text + fmt::format("  disk of {}: {:.2f} GB/s\nwritten to {}: lockstep plan search MODEL {}\n", folder_of(path).string(),
                            1e-9 * machine.disk_rate, path, path);
}

}  // namespace lockstep::app
