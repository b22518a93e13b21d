#include "model/context.h"

namespace lockstep::model {

ops::Norm& norm_of(const Context& context) {
  return context.config.norm == arch::NormKind::rmsnorm ? context.ops.rms_norm() : context.ops.norm();
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
