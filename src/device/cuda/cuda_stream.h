#pragma once

// Streams of an NVIDIA GPU.

#include <cuda_runtime_api.h>

#include <memory>

#include "device/cuda/repeated_work.h"
#include "device/stream.h"

namespace lockstep::cuda {

/// A stream of the GPU with CUDA's number `gpu`, which waits for no other stream unless it is told to.
std::unique_ptr<Stream> make_cuda_stream(int gpu);

/// CUDA's handle of a stream that make_cuda_stream made; `stream` owns it. The calling thread's work goes to the stream's GPU
/// from here on. Throws std::bad_cast for another stream.
cudaStream_t native(Stream& stream);

/// What becomes of work that such a stream is given; `stream` owns it.
WorkGate& gate_of(Stream& stream);

}  // namespace lockstep::cuda
