#pragma once

// The kernels of NVIDIA GPUs. A build without CUDA has absent/cuda_ops.cpp in the place of what is in this folder.

#include <memory>

#include "ops/ops.h"

namespace lockstep::ops::cuda {

/// Kernels on `stream`, which `runtime`, that of a GPU, made. Both outlive them, and so does `observer` (null: none). In f32
/// results have the CPU's bits. Throws UserError when this build has no CUDA.
std::unique_ptr<Ops> make_cuda_ops(Runtime& runtime, Stream& stream, OpObserver* observer);

}  // namespace lockstep::ops::cuda
