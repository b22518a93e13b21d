#pragma once

// Samples of several documents.

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace lockstep::support {

/// Where documents begin (ops/positions.h), in samples that all have documents of the same lengths.
class Documents {
 public:
  Documents(const std::vector<std::int64_t>& lengths, std::int64_t samples) : samples_(samples) {
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      std::int32_t start = 0;
      for (const std::int64_t length : lengths) {
        starts_.insert(starts_.end(), static_cast<std::size_t>(length), start);
        start += static_cast<std::int32_t>(length);
      }
    }
  }
  std::int64_t positions() const { return std::ssize(starts_) / samples_; }
  /// [samples, positions] i32.
  Tensor starts() { return view(std::span(starts_), Shape{samples_, positions()}); }

 private:
  std::int64_t samples_;
  std::vector<std::int32_t> starts_;
};

}  // namespace lockstep::support
