#pragma once

// Finds the fastest width of a SwiGLU's hidden layer here. Widths near 8/3 of the model's width keep the number of parameters.

#include <cstdint>
#include <functional>
#include <vector>

#include "base/text/answer.h"
#include "device/runtime.h"
#include "ops/cpu/options.h"

namespace lockstep::lab {

/// int(8/3 hidden), then the multiples of 4 up to 100 away from it, in order.
std::vector<std::int64_t> swiglu_widths(std::int64_t hidden);

struct SwigluOptions {
  std::int64_t hidden = 0;  ///< width of the model
  std::int64_t tokens = 256;
  int rounds = 3;  ///< each times every width once
  DType type = DType::f32;
  ops::Isa isa = ops::Isa::automatic;
  std::function<void(std::int64_t width)> progress = {};  ///< called with each measured width; may be empty
};

struct SwigluRow {
  std::int64_t width;
  double flops;                 ///< FLOPs/s of all products, forward and backward: the median of rounds
  std::vector<double> share;    ///< of the multiply-add rate measured beside it, by round
  std::int64_t parameters = 0;  ///< of the layer: 3 x width x hidden

  double median_share() const;
};

struct SwigluReport {
  std::int64_t hidden = 0, tokens = 0;
  SwigluRow base;                 ///< int(8/3 hidden)
  std::vector<SwigluRow> ranked;  ///< the others, the largest median share first
};

SwigluReport search_swiglu(Runtime& runtime, const SwigluOptions& options);
/// A table of the base and the five best widths.
Answer answer_of(const SwigluReport& report);

}  // namespace lockstep::lab
