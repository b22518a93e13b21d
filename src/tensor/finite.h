#pragma once

// Whether numbers are finite.

#include <cstddef>
#include <span>

#include "tensor/tensor.h"

namespace lockstep {

/// Whether all f32 or bf16 elements are finite. The bytes are whole elements.
bool all_finite(std::span<const std::byte> bytes, DType type);
/// Whether all IEEE half-precision elements are finite.
bool all_finite_halves(std::span<const std::byte> bytes);
/// Whether all elements of a tensor on the host are finite.
bool all_finite(const Tensor& values);

}  // namespace lockstep
