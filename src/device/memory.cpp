#include "device/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/checked.h"
#include "base/error.h"
#include "base/units.h"
#include "io/free_memory.h"

namespace lockstep {

Memory::~Memory() {
  if (data_ != nullptr) source_->release(data_, size_);
}

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t small_page = 4096;
constexpr std::size_t worth_asking = std::size_t{256} << 20;

// The kernel promises more than it has, and ends the process when the pages are touched.
void demand_free(std::size_t size) {
  const std::optional<io::FreeMemory> free = io::free_memory();
  if (!free || size <= static_cast<std::size_t>(free->bytes)) return;
  throw SystemError(fmt::format("no memory: {} are needed in one piece, and {} are free ({})", format_bytes(size),
                                format_bytes(static_cast<std::uint64_t>(free->bytes)), free->source));
}

// Pages come zeroed from the kernel, faulted in when they are first touched (by the thread that uses them).
class HostMemory final : public MemorySource {
 public:
  Memory allocate(std::size_t size) override {
    if (size == 0) return {};
    if (size >= worth_asking) demand_free(size);
    const std::size_t length = mapped_length(size);
    const std::size_t slack = size >= huge_page ? huge_page : 0;
    void* raw = length + slack < size ? MAP_FAILED
                                      : mmap(nullptr, length + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) {
      throw SystemError(fmt::format("no memory: {} bytes could not be had ({})", size, std::strerror(ENOMEM)));
    }
    auto* start = static_cast<std::byte*>(raw);
    if (slack != 0) start = trim(start, length);
    return {this, start, size};
  }

 private:
  static std::size_t mapped_length(std::size_t size) {
    const std::size_t page = size >= huge_page ? huge_page : small_page;
    return (size + page - 1) / page * page;
  }

  // Gives back what lies before and after the aligned range, and asks for huge pages.
  static std::byte* trim(std::byte* raw, std::size_t length) {
    const std::size_t misfit = reinterpret_cast<std::uintptr_t>(raw) % huge_page;
    const std::size_t before = misfit == 0 ? 0 : huge_page - misfit;
    std::byte* start = raw + before;
    if (before != 0) munmap(raw, before);
    if (before != huge_page) munmap(start + length, huge_page - before);
    // Refused where the kernel has no huge pages: small ones do.
    madvise(start, length, MADV_HUGEPAGE);
    return start;
  }

  void release(std::byte* data, std::size_t size) noexcept override { munmap(data, mapped_length(size)); }
};

}  // namespace

MemorySource& host_memory() {
  static HostMemory source;
  return source;
}

}  // namespace lockstep
