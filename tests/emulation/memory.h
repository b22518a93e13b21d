#pragma once

// Memory of the device and pinned memory of the host. Device memory stands between guard pages and is closed to the host, but
// while work is done.

#include <cstddef>
#include <string>

namespace lockstep::emulation {

/// The content of memory that was not written yet: a NaN as f32, bf16, fp16 and f64, and no valid index.
constexpr unsigned poison = 0x7fff7fff;
void fill_with_poison(void* data, std::size_t bytes, unsigned word = poison);

/// Poisoned device memory, aligned to 64 bytes; null when memory is short.
void* allocate_device(std::size_t bytes);
void* allocate_pinned(std::size_t bytes);
/// Frees device memory. False: allocate_device() did not give it.
bool free_device(void* data);
bool free_pinned(void* data);

bool is_device(const void* address);
/// False when these bytes begin in an allocation of the device and reach beyond it.
bool device_has(const void* data, std::size_t bytes);
bool is_pinned(const void* address);
/// "device memory of N bytes, at byte K", or "" for another address.
std::string describe_device(const void* address);
std::size_t device_bytes();

/// While one lives, device memory is open.
class DeviceOpen {
 public:
  DeviceOpen();
  ~DeviceOpen();
  DeviceOpen(const DeviceOpen&) = delete;
  DeviceOpen& operator=(const DeviceOpen&) = delete;
};

/// From here on, a touch of memory that ends the program tells first whose it was.
void watch_touches();

}  // namespace lockstep::emulation
