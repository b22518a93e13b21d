#pragma once

// The kernels of NVIDIA GPUs. A build without CUDA has absent/cuda_ops.cpp in the place of what is in this folder.

#include <cstdint>
#include <memory>
#include <string_view>

#include "ops/ops.h"

namespace lockstep::ops::cuda {

/// How a product with a bf16 operand adds. Widened: as the product of the widened operands, with the CPU's bits. Tensor cores: in
/// an order of their own, where an f32 operand is rounded to bf16 first. In both an element depends on its row, its column and K
/// alone.
enum class Bf16Products : std::uint8_t { widened, tensor_cores };

/// A hash of these kernels' sources, and of what the compiler was told; empty where this build has none.
std::string_view kernels_hash();

/// Kernels on `stream`, which `runtime`, that of a GPU, made. Both outlive them, and so does `observer` (null: none). In f32
/// results have the CPU's bits. Throws UserError when this build has no CUDA.
std::unique_ptr<Ops> make_cuda_ops(Runtime& runtime, Stream& stream, Bf16Products bf16, OpObserver* observer);

}  // namespace lockstep::ops::cuda
