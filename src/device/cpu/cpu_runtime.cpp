#include "device/cpu/cpu_runtime.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/error.h"
#include "device/cpu/processor.h"
#include "device/team.h"

namespace lockstep::cpu {
namespace {

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return std::string(processor_kind());
}

class CpuRuntime final : public Runtime {
 public:
  explicit CpuRuntime(int threads) : team_(threads) {}
  Device device() const override { return {DeviceKind::cpu, 0}; }
  std::unique_ptr<Stream> make_stream() override { return make_immediate_stream(); }
  std::string description() const override {
    return fmt::format("{}, {}, {} thread{}", processor_name(), vector_extensions(), team_.size(), team_.size() == 1 ? "" : "s");
  }
  Team& team() override { return team_; }

 private:
  MemorySource& source(Space /*space*/) override { return host_memory(); }

  Team team_;
};

}  // namespace

std::unique_ptr<Runtime> open_cpu_runtime(const CpuOptions& options) {
  if (options.threads < 0 || options.threads > Team::most_threads)
    throw UserError(fmt::format("a rank has 1 to {} threads, not {}", Team::most_threads, options.threads),
                    "without a number it has one a core");
  return std::make_unique<CpuRuntime>(options.threads == 0 ? usable_cores() : options.threads);
}

}  // namespace lockstep::cpu
