#include <array>

#include "reference/families.h"

namespace lockstep::ops {
namespace {

class ReferenceOps final : public Ops {
 public:
  explicit ReferenceOps(OpObserver* observer) : observer_(observer) {}
  Linear& linear() override { return *linear_; }
  Norm& norm(NormForm form) override { return *norms_[static_cast<std::size_t>(form)]; }
  SplitNorm& split_norm() override { return *split_norm_; }
  Rotary& rotary() override { return *rotary_; }
  Attention& attention() override { return *attention_; }
  Activations& activation() override { return *activation_; }
  Embedding& embedding() override { return *embedding_; }
  Dropout& dropout() override { return *dropout_; }
  Loss& loss() override { return *loss_; }
  Elementwise& elementwise() override { return *elementwise_; }
  Reduce& reduce() override { return *reduce_; }
  Update& update() override { return *update_; }
  Stream& stream() override { return *stream_; }
  std::int64_t workspace_bytes() const override { return 0; }
  void take_sum_grids() override {}

 private:
  OpObserver* observer_;
  std::unique_ptr<Stream> stream_ = make_immediate_stream();
  std::unique_ptr<Linear> linear_ = reference::make_linear(observer_);
  std::array<std::unique_ptr<Norm>, 3> norms_ = {reference::make_norm(NormForm::layer, observer_),
                                                 reference::make_norm(NormForm::rms, observer_),
                                                 reference::make_norm(NormForm::rms_unit_offset, observer_)};
  std::unique_ptr<SplitNorm> split_norm_ = reference::make_split_norm(observer_);
  std::unique_ptr<Rotary> rotary_ = reference::make_rotary(observer_);
  std::unique_ptr<Attention> attention_ = reference::make_attention(observer_);
  std::unique_ptr<Activations> activation_ = reference::make_activation(observer_);
  std::unique_ptr<Embedding> embedding_ = reference::make_embedding(observer_);
  std::unique_ptr<Dropout> dropout_ = reference::make_dropout(observer_);
  std::unique_ptr<Loss> loss_ = reference::make_loss(observer_);
  std::unique_ptr<Elementwise> elementwise_ = reference::make_elementwise(observer_);
  std::unique_ptr<Reduce> reduce_ = reference::make_reduce(observer_);
  std::unique_ptr<Update> update_ = reference::make_update(observer_);
};

}  // namespace

std::unique_ptr<Ops> make_reference_ops(OpObserver* observer) { return std::make_unique<ReferenceOps>(observer); }

}  // namespace lockstep::ops
