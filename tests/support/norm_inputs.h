#pragma once

// What the tests of norms compute on: rows away from zero, so that a mean counts.

#include "support/ops.h"

namespace lockstep::test {

struct NormInputs {
  NormInputs(std::int64_t b, std::int64_t c, DType s = DType::f32)
      : rows(b),
        columns(c),
        type(s),
        x(HostTensor::random({b, c}, 1, 3)),
        gain(HostTensor::random({c}, 2).as(s)),
        bias(HostTensor::random({c}, 3).as(s)),
        dn(HostTensor::random({b, c}, 4).as(s)),
        residual(HostTensor::random({b, c}, 5).as(s)) {
    for (float& value : x.values()) value += 0.5F;
    x = x.as(s);
  }
  /// An empty place for a result of rows x columns.
  HostTensor matrix() const { return HostTensor({rows, columns}, type); }

  std::int64_t rows, columns;
  DType type;
  HostTensor x, gain, bias, dn, residual;
};

}  // namespace lockstep::test
