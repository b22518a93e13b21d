#include <array>

#include "device/cuda/cuda_runtime.h"
#include "device/cuda/cuda_stream.h"
#include "ops/cuda/backend.h"
#include "ops/cuda/context.h"

namespace lockstep::ops::cuda {
namespace {

constexpr int capability_of_warpgroups = 90;  // Hopper alone

class CudaOps final : public Ops {
 public:
  CudaOps(Runtime& runtime, Stream& stream, Bf16Products bf16, OpObserver* observer)
      : memory_(runtime.memory().allocate(Context::workspace_size(bf16))),
        context_{.stream = stream,
                 .native = lockstep::cuda::native(stream),
                 .gate = lockstep::cuda::gate_of(stream),
                 .workspace = {memory_.data(), memory_.size()},
                 .bf16 = bf16,
                 .observer = observer,
                 .warpgroups = lockstep::cuda::facts_of_gpu(runtime.device().index).capability == capability_of_warpgroups} {}

  Linear& linear() override { return *linear_; }
  Norm& norm(NormForm form) override { return *norms_[static_cast<std::size_t>(form)]; }
  SplitNorm& split_norm() override { return *split_norm_; }
  Attention& attention() override { return *attention_; }
  Rotary& rotary() override { return *rotary_; }
  Activations& activation() override { return *activation_; }
  Embedding& embedding() override { return *embedding_; }
  Dropout& dropout() override { return *dropout_; }
  Loss& loss() override { return *loss_; }
  Elementwise& elementwise() override { return *elementwise_; }
  Reduce& reduce() override { return *reduce_; }
  Update& update() override { return *update_; }
  Stream& stream() override { return context_.stream; }
  std::int64_t workspace_bytes() const override { return static_cast<std::int64_t>(memory_.size()); }
  /// Sums by ranges are kept in registers.
  void take_sum_grids() override {}
  /// An observer is told of the ops of every call, and may wait for each.
  void repeat(std::unique_ptr<KeptWork>& kept, const std::function<void()>& issue) override {
    if (context_.observer != nullptr) return issue();
    lockstep::cuda::repeat(context_.native, context_.gate, kept, issue);
  }

 private:
  Memory memory_;
  Context context_;
  std::unique_ptr<Linear> linear_ = make_linear(context_);
  std::unique_ptr<Attention> attention_ = make_attention(context_);
  std::array<std::unique_ptr<Norm>, 3> norms_ = {make_norm(context_, NormForm::layer), make_norm(context_, NormForm::rms),
                                                 make_norm(context_, NormForm::rms_unit_offset)};
  std::unique_ptr<SplitNorm> split_norm_ = make_split_norm(context_);
  std::unique_ptr<Rotary> rotary_ = make_rotary(context_);
  std::unique_ptr<Activations> activation_ = make_activation(context_);
  std::unique_ptr<Embedding> embedding_ = make_embedding(context_);
  std::unique_ptr<Dropout> dropout_ = make_dropout(context_);
  std::unique_ptr<Loss> loss_ = make_loss(context_);
  std::unique_ptr<Elementwise> elementwise_ = make_elementwise(context_);
  std::unique_ptr<Reduce> reduce_ = make_reduce(context_);
  std::unique_ptr<Update> update_ = make_update(context_);
};

}  // namespace

std::string_view kernels_hash() { return LOCKSTEP_KERNELS_HASH; }

std::unique_ptr<Ops> make_cuda_ops(Runtime& runtime, Stream& stream, Bf16Products bf16, OpObserver* observer) {
  return std::make_unique<CudaOps>(runtime, stream, bf16, observer);
}

}  // namespace lockstep::ops::cuda
