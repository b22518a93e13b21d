#pragma once

// Memory, where it lies, and what hands it out.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "device/device.h"

namespace lockstep {

/// Where memory lies, as seen from a device. On the CPU all three are the same.
enum class Space : std::uint8_t {
  device,  ///< the device's own, where its kernels work
  pinned,  ///< the host's, and the device's copies reach it while both go on working
  host     ///< the host's
};

class MemorySource;

/// Move-only owner of one allocation.
class Memory {
 public:
  Memory() = default;
  Memory(MemorySource* source, std::byte* data, std::size_t size) : source_(source), data_(data), size_(size) {}
  Memory(Memory&& other) noexcept
      : source_(std::exchange(other.source_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(source_, other.source_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  MemorySource* source_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Hands out memory; outlives what it handed out.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// At least `size` zeroed bytes, aligned to 64 bytes. Throws SystemError when there is no memory.
  virtual Memory allocate(std::size_t size) = 0;
  /// The device whose kernels work in this memory; the CPU for the host's memory.
  virtual Device device() const { return {}; }

 private:
  friend class Memory;
  virtual void release(std::byte* data, std::size_t size) noexcept = 0;
};

/// Host memory on huge pages (2 MiB, by madvise) where the size allows it.
MemorySource& host_memory();

}  // namespace lockstep
