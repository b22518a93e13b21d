#pragma once

// What devices compute at most by their makers' word: what MFU is a part of.

#include <optional>
#include <span>
#include <string_view>

namespace lockstep::planner {

struct Peak {
  std::string_view name;  ///< "a100"; ":tf32" and the like behind it where the type is not bf16
  double tflops;          ///< of dense products
};

/// bf16 of every device, and other types where they are known. (A V100 has no bf16: fp16.)
std::span<const Peak> peaks();
/// A device of peaks(), or its clock formula "MHz x FMAs x units" ("1410x256x432"): each unit does so many fused multiply-adds a
/// clock, of two FLOPs each. TFLOPS; nothing for another text, or a formula with a part that is not above 0. Capitals are small
/// letters.
std::optional<double> peak_from(std::string_view text);

}  // namespace lockstep::planner
