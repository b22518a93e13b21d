#include "ops/reference/families.h"

namespace lockstep::ops {
namespace {

class ReferenceOps final : public Ops {
 public:
  Linear& linear() override { return *linear_; }
  Norm& norm() override { return *norm_; }
  Norm& rms_norm() override { return *rms_norm_; }
  Rotary& rotary() override { return *rotary_; }
  Attention& attention() override { return *attention_; }
  Activations& activation() override { return *activation_; }
  Embedding& embedding() override { return *embedding_; }
  Dropout& dropout() override { return *dropout_; }
  Loss& loss() override { return *loss_; }
  Elementwise& elementwise() override { return *elementwise_; }
  Reduce& reduce() override { return *reduce_; }
  Update& update() override { return *update_; }
  std::int64_t workspace_bytes() const override { return 0; }

 private:
  std::unique_ptr<Linear> linear_ = reference::make_linear();
  std::unique_ptr<Norm> norm_ = reference::make_norm(true);
  std::unique_ptr<Norm> rms_norm_ = reference::make_norm(false);
  std::unique_ptr<Rotary> rotary_ = reference::make_rotary();
  std::unique_ptr<Attention> attention_ = reference::make_attention();
  std::unique_ptr<Activations> activation_ = reference::make_activation();
  std::unique_ptr<Embedding> embedding_ = reference::make_embedding();
  std::unique_ptr<Dropout> dropout_ = reference::make_dropout();
  std::unique_ptr<Loss> loss_ = reference::make_loss();
  std::unique_ptr<Elementwise> elementwise_ = reference::make_elementwise();
  std::unique_ptr<Reduce> reduce_ = reference::make_reduce();
  std::unique_ptr<Update> update_ = reference::make_update();
};

}  // namespace

std::unique_ptr<Ops> make_reference_ops() { return std::make_unique<ReferenceOps>(); }

}  // namespace lockstep::ops
