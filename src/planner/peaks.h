#pragma once

// Peak rates of devices by their makers' data sheets. MFU is a share of these.

#include <optional>
#include <span>
#include <string_view>

namespace lockstep::planner {

struct Peak {
  std::string_view name;  ///< "a100"; with ":tf32" or the like where the type is not bf16
  double tflops;          ///< of dense products
};

/// bf16 peaks of every device, and other types where they are known. (A V100 has no bf16: fp16.)
std::span<const Peak> peaks();
/// TFLOPS of a device of peaks(), or of a clock formula "MHz x FMAs x units" ("1410x256x432"). Each unit does so many fused
/// multiply-adds a clock, and each of these is two FLOPs. None for another text, or a formula with a part that is not above 0.
/// Case does not matter.
std::optional<double> peak_from(std::string_view text);

}  // namespace lockstep::planner
