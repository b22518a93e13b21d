#pragma once

// What the tests of norms compute on: rows away from zero, so that a mean counts.

#include "support/ops.h"

namespace lockstep::test {

struct NormInputs {
  NormInputs(std::int64_t b, std::int64_t c)
      : rows(b),
        columns(c),
        x(HostTensor::random({b, c}, 1, 3)),
        gain(HostTensor::random({c}, 2)),
        bias(HostTensor::random({c}, 3)),
        dn(HostTensor::random({b, c}, 4)),
        residual(HostTensor::random({b, c}, 5)) {
    for (float& value : x.values()) value += 0.5F;
  }
  std::int64_t rows, columns;
  HostTensor x, gain, bias, dn, residual;
};

}  // namespace lockstep::test
