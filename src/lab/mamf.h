#pragma once

// The highest rate that products reach here, over a range of shapes: the maximum achievable matmul FLOPS (MAMF) of
// ml-engineering's finder. As in that finder, every call is timed alone, after the caches were flushed and the result was filled
// anew. Operands so come from memory, unlike those of bench_gemm.

#include <cstdint>
#include <functional>
#include <vector>

#include "base/text/answer.h"
#include "device/runtime.h"
#include "ops/cpu/options.h"

namespace lockstep::lab {

/// y [m, n] = x [m, k] w [n, k]^T.
struct MamfRow {
  std::int64_t m, n, k;
  std::vector<double> seconds;  ///< of each timed call

  // FLOP/s, 2 m n k over the mean, the median and the least of the seconds.
  double mean() const;
  double median() const;
  double max() const;
};

struct MamfOptions {
  std::vector<std::int64_t> m, n, k;  ///< every combination is a shape
  DType type = DType::f32;
  ops::Isa isa = ops::Isa::automatic;
  int warmups = 50, trials = 100;  ///< of each shape, at most
  /// Seconds for all shapes, in equal parts, of which a quarter is for warming up. Each shape is timed at least 3 times. Filling
  /// buffers comes on top.
  double seconds = 60;
  std::function<bool()> stopped = {};                 ///< asked after every shape; may be empty
  std::function<void(const MamfRow&)> progress = {};  ///< called with every shape; may be empty
};

struct MamfReport {
  std::vector<MamfRow> rows;
  DType type = DType::f32;
  int threads = 1;
  double elapsed = 0;
  bool stopped = false;  ///< whether it ended before all shapes
};

MamfReport find_mamf(Runtime& runtime, const MamfOptions& options);

/// A line for each shape with the best so far, and the best and mean rates of all shapes.
Answer answer_of(const MamfReport& report);

}  // namespace lockstep::lab
