// What ends the program: a touch of memory outside of allocations, or of device memory by the host.

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "block_state.h"
#include "cuda_runtime.h"
#include "emulation/emulation.h"
#include "grid.h"
#include "memory.h"

namespace lockstep::emulation {
namespace {

std::string whose(const std::byte* address) {
  const std::string device = describe_device(address);
  if (!device.empty()) return device;
  if (!block().running()) return "no memory of the emulation";
  if (block().is_below_stack(address)) return "below the thread's stack";
  return shared_memory_at(address);
}

std::string who() {
  if (!block().running()) return "the host";
  const uint3 thread = block().index();
  return "kernel " + running_kernel() + ", block " + to_string({blockIdx.x, blockIdx.y, blockIdx.z}) + ", thread " +
         to_string(thread);
}

// The program ends anyhow: what allocates here may as well fail. Behind it the signal does what it does by default.
void on_fault(int signal, siginfo_t* info, void* /*context*/) {
  const auto* address = static_cast<const std::byte*>(info->si_addr);
  const std::string text = "emulation: " + who() + " touched " + whose(address) + " (seed " + std::to_string(seed()) + ")\n";
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) std::perror("emulation");
  ::signal(signal, SIG_DFL);
}

}  // namespace

void watch_touches() {
  static std::byte stack[64 << 10];
  const stack_t other{stack, 0, sizeof stack};
  sigaltstack(&other, nullptr);
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS}) sigaction(signal, &action, nullptr);
}

}  // namespace lockstep::emulation
