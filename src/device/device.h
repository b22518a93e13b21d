#pragma once

// Which device: kind and index.

#include <cstdint>

namespace lockstep {

enum class DeviceKind : std::uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  /// Whether its memory is the host's.
  bool is_host() const { return kind == DeviceKind::cpu; }
  friend bool operator==(const Device&, const Device&) = default;
};

}  // namespace lockstep
