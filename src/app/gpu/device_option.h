#pragma once

// What commands with --device share.

#include <functional>

#include "device/runtime.h"

namespace lockstep::app {

/// Calls open(). An error that it throws about train.device=cuda is told as one about --device cuda.
void tell_of_device_option(const std::function<void()>& open);

/// The FLOP/s that MFU is a share of: the processor's rate of multiply-adds, measured now, or what a GPU's datasheet says of
/// bf16. 0: unknown.
double peak_flops(Runtime& runtime);

}  // namespace lockstep::app
