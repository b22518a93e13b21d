#pragma once

// What every kernel family of CUDA is built from, on the host's side.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "device/cuda/repeated_work.h"
#include "ops/cuda/backend.h"
#include "ops/ops.h"

namespace lockstep::ops::cuda {

struct Context {
  Stream& stream;
  cudaStream_t native;             ///< CUDA's handle of `stream`
  lockstep::cuda::WorkGate& gate;  ///< of `stream`
  /// Device memory for partial sums: ops of one stream run one after the other and share it. Aligned to 64 bytes.
  std::span<std::byte> workspace;
  Bf16Products bf16;
  OpObserver* observer;     ///< of the families' ops; null: none
  bool warpgroups = false;  ///< whether products use Hopper's instructions of warpgroups

  /// Bytes of workspace. Tensor cores make gradients of weights by blocks of tokens, whose sums wait in it.
  static std::size_t workspace_size(Bf16Products bf16) {
    return std::size_t{bf16 == Bf16Products::tensor_cores ? 64U : 1U} << 20U;
  }

  /// The workspace as elements of T.
  template <class T>
  std::span<T> scratch() const {
    return {reinterpret_cast<T*>(workspace.data()), workspace.size() / sizeof(T)};
  }
};

std::unique_ptr<Linear> make_linear(const Context& context);
std::unique_ptr<Norm> make_norm(const Context& context, NormForm form);
std::unique_ptr<SplitNorm> make_split_norm(const Context& context);
std::unique_ptr<Attention> make_attention(const Context& context);
std::unique_ptr<Rotary> make_rotary(const Context& context);
std::unique_ptr<Activations> make_activation(const Context& context);
std::unique_ptr<Embedding> make_embedding(const Context& context);
std::unique_ptr<Dropout> make_dropout(const Context& context);
std::unique_ptr<Loss> make_loss(const Context& context);
std::unique_ptr<Elementwise> make_elementwise(const Context& context);
std::unique_ptr<Reduce> make_reduce(const Context& context);
std::unique_ptr<Update> make_update(const Context& context);

}  // namespace lockstep::ops::cuda
