#pragma once

// Which device a rank computes on.

#include <string_view>

#include "device/device.h"

namespace lockstep {

/// "cpu", "cuda".
std::string_view name_of(DeviceKind kind);
/// The kind that is named; empty: the CPU. Of a host's ranks, `number` is this
/// one's: the GPUs are dealt out to them in turn. Throws UserError for an unknown name.
Device choose_device(std::string_view name, int number);

}  // namespace lockstep
