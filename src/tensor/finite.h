#pragma once

// Whether numbers are finite.

#include <cstddef>
#include <span>

#include "tensor/tensor.h"

namespace lockstep {

/// Of f32 or bf16 elements. A multiple of one has to be there.
bool all_finite(std::span<const std::byte> bytes, DType type);
/// Of IEEE half-precision elements.
bool all_finite_halves(std::span<const std::byte> bytes);
/// The same of a tensor on the host.
bool all_finite(const Tensor& values);

}  // namespace lockstep
