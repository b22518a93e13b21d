#include "memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <map>

namespace lockstep::emulation {
namespace {

constexpr std::size_t page = 4096, alignment = 64;

// One allocation: the mapping has a closed page at each end, and the data ends where the last begins.
struct Region {
  std::byte* mapping;
  std::size_t mapped, bytes;
};

class Regions {
 public:
  std::byte* allocate(std::size_t bytes, int access) {
    const std::size_t room = (bytes + page - 1) / page * page;
    if (room < bytes) return nullptr;
    void* raw = mmap(nullptr, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) return nullptr;
    auto* mapping = static_cast<std::byte*>(raw);
    mprotect(mapping + page, room, PROT_READ | PROT_WRITE);
    fill_with_poison(mapping + page, room);
    mprotect(mapping + page, room, access);
    std::byte* data = mapping + page + room - (bytes + alignment - 1) / alignment * alignment;
    regions_[data] = {mapping, room + 2 * page, bytes};
    bytes_ += bytes;
    return data;
  }

  bool free(void* data) {
    const auto at = regions_.find(static_cast<std::byte*>(data));
    if (at == regions_.end()) return false;
    bytes_ -= at->second.bytes;
    munmap(at->second.mapping, at->second.mapped);
    regions_.erase(at);
    return true;
  }

  void protect(int access) const {
    for (const auto& [data, region] : regions_) mprotect(region.mapping + page, region.mapped - 2 * page, access);
  }

  /// The allocation whose mapping has the address, its guard pages included.
  const std::pair<std::byte* const, Region>* around(const void* address) const {
    const auto* at = static_cast<const std::byte*>(address);
    for (const auto& region : regions_) {
      if (at >= region.second.mapping && at < region.second.mapping + region.second.mapped) return &region;
    }
    return nullptr;
  }
  /// Whether the address is of an allocation, or right behind its end.
  bool has(const void* address) const {
    const auto* found = around(address);
    const auto* at = static_cast<const std::byte*>(address);
    return found != nullptr && at >= found->first && at <= found->first + found->second.bytes;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::map<std::byte*, Region> regions_;
  std::size_t bytes_ = 0;
};

Regions& device() {
  static Regions all;
  return all;
}
Regions& pinned() {
  static Regions all;
  return all;
}
int& times_open() {
  static int times = 0;
  return times;
}

}  // namespace

// ThreadSanitizer does not see this write.
void fill_with_poison(void* data, std::size_t bytes, unsigned word) {
  auto* words = static_cast<unsigned*>(data);
  for (std::size_t i = 0; i < bytes / sizeof word; ++i) words[i] = word;
}

void* allocate_device(std::size_t bytes) {
  static const bool watched = (watch_touches(), true);
  const bool open = watched && times_open() > 0;
  return device().allocate(bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}
void* allocate_pinned(std::size_t bytes) { return pinned().allocate(bytes, PROT_READ | PROT_WRITE); }
bool free_device(void* data) { return device().free(data); }
bool free_pinned(void* data) { return pinned().free(data); }
bool is_device(const void* address) { return device().has(address); }
bool device_has(const void* data, std::size_t bytes) {
  const auto* found = device().around(data);
  const auto* at = static_cast<const std::byte*>(data);
  return found == nullptr || (at >= found->first && at + bytes <= found->first + found->second.bytes);
}
bool is_pinned(const void* address) { return pinned().has(address); }
std::size_t device_bytes() { return device().bytes(); }

std::string describe_device(const void* address) {
  const auto* found = device().around(address);
  if (found == nullptr) return "";
  const auto offset = static_cast<const std::byte*>(address) - found->first;
  return "device memory of " + std::to_string(found->second.bytes) + " bytes, at byte " + std::to_string(offset);
}

DeviceOpen::DeviceOpen() {
  if (++times_open() == 1) device().protect(PROT_READ | PROT_WRITE);
}
DeviceOpen::~DeviceOpen() {
  if (--times_open() == 0) device().protect(PROT_NONE);
}

}  // namespace lockstep::emulation
