#pragma once

// The kernels of NVIDIA GPUs. A build without CUDA compiles absent/cuda_ops.cpp in place of this folder.

#include <cstdint>
#include <memory>
#include <string_view>

#include "ops/ops.h"

namespace lockstep::ops::cuda {

/// How a product with a bf16 operand adds. Widened, it adds as the product of the widened operands, with the CPU's bits. Tensor
/// cores add in their own order and round an f32 operand to bf16 first. In both, an element depends on its row, its column and K
/// alone.
enum class Bf16Products : std::uint8_t { widened, tensor_cores };

/// A hash of these kernels' sources and of the compiler's options. Empty where this build has no such kernels.
std::string_view kernels_hash();

/// Kernels on `stream`, which a GPU's `runtime` made. Both outlive the kernels, and so does `observer` (null: none). Results in
/// f32 have the CPU's bits. Throws UserError when this build has no CUDA.
std::unique_ptr<Ops> make_cuda_ops(Runtime& runtime, Stream& stream, Bf16Products bf16, OpObserver* observer);

}  // namespace lockstep::ops::cuda
