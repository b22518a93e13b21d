#include "model/context.h"

namespace lockstep::model {

ops::Norm& norm_of(const Context& context) {
  return context.config.norm == arch::NormKind::rmsnorm ? head_norm_of(context) : context.ops.norm(ops::NormForm::layer);
}

ops::Norm& head_norm_of(const Context& context) {
  return context.ops.norm(context.config.unit_offset ? ops::NormForm::rms_unit_offset : ops::NormForm::rms);
}

ops::Activation activation_of(const Context& context) {
  switch (context.config.activation) {
    case arch::ActivationKind::none:
      return ops::Activation::none;
    case arch::ActivationKind::gelu:
      return ops::Activation::gelu;
    case arch::ActivationKind::gelu_tanh:
      return ops::Activation::gelu_tanh;
    case arch::ActivationKind::relu:
      return ops::Activation::relu;
    case arch::ActivationKind::silu:
      return ops::Activation::silu;
  }
  ensure(false, "an activation is one of these");
  return ops::Activation::none;
}

Pass outside_pass(const Pass& pass, const parallel::Boundary& boundary) {
  const parallel::TokenBlock tokens = boundary.outside(pass.grid());
  Pass outside = pass;
  outside.samples = tokens.samples.count;
  outside.first_sample += tokens.samples.first;
  outside.positions = pass.positions.part(tokens.positions.first, tokens.positions.count);
  if (pass.starts) outside.starts = pass.starts.slice_rows(tokens.samples.first, tokens.samples.count);
  return outside;
}

Tensor rounded(const Context& context, const Tensor& sums, const Tensor& to) {
  if (context.parameters.dtype() == sums.dtype) return sums;
  const Tensor result = to.slice_rows(0, sums.rows());
  context.ops.elementwise().cast(result, sums);
  return result;
}

ops::DropoutSite dropout_site(const Context& context, const Pass& pass, int layer, ops::Site site) {
  ops::DropoutSite at;
  if (!pass.training || context.config.dropout == 0) return at;
  at.p = context.config.dropout;
  ops::make_key(at.key, context.seed, pass.step, layer, site);
  at.first_sample = pass.first_sample;
  at.positions = pass.positions;
  at.index_stride = context.config.block_size;
  return at;
}

}  // namespace lockstep::model
