#include "grid.h"

#include <sys/mman.h>

#include <numeric>
#include <vector>

#include "block_state.h"
#include "cuda_runtime.h"
#include "memory.h"
#include "random.h"
#include "symbols.h"
#include "tally.h"

namespace lockstep::emulation {
namespace {

constexpr std::size_t page = 4096, most_shared = std::size_t{228} << 10;

/// Where every block's shared memory ends: a closed page follows.
std::byte* shared_end() {
  static std::byte* const end = [] {
    void* area = mmap(nullptr, most_shared + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED) throw std::bad_alloc();
    std::byte* guard = static_cast<std::byte*>(area) + most_shared;
    mprotect(guard, page, PROT_NONE);
    return guard;
  }();
  return end;
}

const Launch*& running() {
  static const Launch* launch = nullptr;
  return launch;
}

uint3 index_of(std::uint64_t n, dim3 grid) {
  return {static_cast<unsigned>(n % grid.x), static_cast<unsigned>(n / grid.x % grid.y),
          static_cast<unsigned>(n / grid.x / grid.y)};
}

// Memory that was not written is a NaN, or by lot a large number: maxima swallow NaN.
unsigned word_not_written() { return lot().draw(4) == 0 ? 0x7f007f00 : poison; }

}  // namespace

std::string to_string(uint3 index) {
  return std::to_string(index.x) + "," + std::to_string(index.y) + "," + std::to_string(index.z);
}

std::string running_kernel() { return running() == nullptr ? "" : symbol_of(running()->kernel); }

std::string shared_memory_at(const std::byte* address) {
  const std::byte* end = shared_end();
  if (running() == nullptr || address < end - most_shared || address >= end + page) return "no memory of the emulation";
  return "shared memory, " + std::to_string(address - end) + " bytes behind its end";
}

void run_grid(const Launch& launch) {
  ++tally().launches;
  running() = &launch;
  gridDim = launch.grid;
  blockDim = launch.block;
  const std::size_t shared_bytes = (launch.shared_bytes + 15) / 16 * 16;
  std::byte* shared = shared_end() - shared_bytes;
  std::vector<std::uint64_t> order(std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z);
  std::iota(order.begin(), order.end(), 0U);
  lot().shuffle(order);
  char begins, ends;  // what was done before the launch is seen by each block; what the blocks did is seen behind it
  release(&begins);
  for (const std::uint64_t n : order) {
    ++tally().blocks;
    blockIdx = index_of(n, launch.grid);
    forget(shared, shared_bytes);
    fill_with_poison(shared, shared_bytes, word_not_written());
    if (!block().run(launch.block, launch.thread, shared, launch.shared_bytes, &begins, &ends)) {
      const std::string kernel = running_kernel();
      running() = nullptr;
      throw Fault("kernel " + kernel + ", block " + to_string(blockIdx) + ": " + block().why() + " (seed " +
                  std::to_string(lot().seed()) + ")");
    }
  }
  acquire(&ends);
  running() = nullptr;
}

}  // namespace lockstep::emulation
