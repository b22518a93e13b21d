#pragma once

// Which device: kind and index.

#include <cstdint>

namespace lockstep {

enum class DeviceKind : std::uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

}  // namespace lockstep
