#include "ops/cpu/backend.h"

#include <array>

#include "ops/cpu/attention/attention.h"
#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/linear.h"

namespace lockstep::ops::cpu {
namespace {

class CpuOps final : public Ops {
 public:
  CpuOps(Runtime& runtime, Stream& stream, Isa isa, const CpuOptions& options, OpObserver* observer)
      : memory_(runtime.memory().allocate(Context::workspace_size)),
        context_{runtime.team(), stream, isa, {memory_.data(), Context::workspace_size}, observer},
        product_(context_.team, isa, runtime.memory(), options.plain.products ? Bf16Order::widened : options.bf16),
        library_(options.products == Products::library ? std::make_unique<LibraryProducts>(product_, runtime.memory()) : nullptr),
        plain_(options.plain.products ? std::make_unique<PlainProducts>(context_.team, isa, runtime.memory()) : nullptr),
        apart_(options.plain.epilogues ? std::make_unique<FinishApart>(context_.team, runtime.memory()) : nullptr),
        passes_(runtime.memory().allocate(options.plain.norm || options.plain.adamw ? passes_bytes : 0)),
        plain_norm_(options.plain.norm),
        plain_adamw_(options.plain.adamw),
        source_(runtime.memory()) {
    ensure(!library_ || !plain_, "products are a library's or plain loops");
  }

  Linear& linear() override { return *linear_; }
  Norm& norm(NormForm form) override { return *norms_[static_cast<std::size_t>(form)]; }
  SplitNorm& split_norm() override { return *split_norm_; }
  Rotary& rotary() override { return *rotary_; }
  Attention& attention() override { return attention_; }
  Activations& activation() override { return *activation_; }
  Embedding& embedding() override { return *embedding_; }
  Dropout& dropout() override { return *dropout_; }
  Loss& loss() override { return *loss_; }
  Elementwise& elementwise() override { return *elementwise_; }
  Reduce& reduce() override { return *reduce_; }
  Update& update() override { return *update_; }
  Stream& stream() override { return context_.stream; }
  std::int64_t workspace_bytes() const override {
    const auto bytes_of = [](const auto& part) { return part ? part->workspace_bytes() : 0; };
    return narrow<std::int64_t>(memory_.size() + passes_.size()) + product_.workspace_bytes() + attention_.workspace_bytes() +
           bytes_of(library_) + bytes_of(plain_) + bytes_of(apart_) + grids_.workspace_bytes();
  }
  void take_sum_grids() override { grids_.take(source_); }

 private:
  /// The room for the two or three operands that plain passes leave for each other.
  static constexpr std::size_t passes_bytes = std::size_t{16} << 20;
  std::span<float> passes() const { return {reinterpret_cast<float*>(passes_.data()), passes_.size() / sizeof(float)}; }
  std::unique_ptr<Norm> norm_of(NormForm form) const {
    return plain_norm_ ? make_plain_norm(context_, form, passes()) : make_norm(context_, form);
  }

  Memory memory_;
  Context context_;
  Product product_;
  std::unique_ptr<LibraryProducts> library_;  // null: the products are ours
  std::unique_ptr<PlainProducts> plain_;      // null: our best
  std::unique_ptr<FinishApart> apart_;        // null: epilogues are fused
  Memory passes_;                             // what plain passes leave for each other; empty: there are none
  bool plain_norm_, plain_adamw_;
  MemorySource& source_;
  GridProduct grids_{product_};
  std::unique_ptr<Linear> linear_ =
      make_linear({.ours = product_, .library = library_.get(), .plain = plain_.get(), .grids = &grids_, .apart = apart_.get()},
                  context_.stream, context_.observer);
  CpuAttention attention_{context_, product_, plain_.get()};
  std::array<std::unique_ptr<Norm>, 3> norms_ = {norm_of(NormForm::layer), norm_of(NormForm::rms),
                                                 norm_of(NormForm::rms_unit_offset)};
  std::unique_ptr<SplitNorm> split_norm_ = make_split_norm(context_);
  std::unique_ptr<Rotary> rotary_ = make_rotary(context_);
  std::unique_ptr<Activations> activation_ = make_activation(context_);
  std::unique_ptr<Embedding> embedding_ = make_embedding(context_);
  std::unique_ptr<Dropout> dropout_ = make_dropout(context_);
  std::unique_ptr<Loss> loss_ = make_loss(context_);
  std::unique_ptr<Elementwise> elementwise_ = make_elementwise(context_);
  std::unique_ptr<Reduce> reduce_ = make_reduce(context_);
  std::unique_ptr<Update> update_ = plain_adamw_ ? make_update(context_, passes()) : make_update(context_);
};

}  // namespace

std::unique_ptr<Ops> make_cpu_ops(Runtime& runtime, Stream& stream, const CpuOptions& options, OpObserver* observer) {
  return std::make_unique<CpuOps>(runtime, stream, resolve(options.isa), options, observer);
}

}  // namespace lockstep::ops::cpu
