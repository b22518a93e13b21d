#pragma once

// Which device a rank computes on.

#include <string_view>

#include "device/device.h"

namespace lockstep {

/// "cpu", "cuda".
std::string_view name_of(DeviceKind kind);
/// The device of the kind that is named; empty: the CPU. `number` counts the ranks of a host, to which its GPUs are dealt out in
/// turn. Throws UserError for an unknown name.
Device choose_device(std::string_view name, int number);

}  // namespace lockstep
