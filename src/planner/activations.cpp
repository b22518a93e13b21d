#include "planner/activations.h"

#include "planner/context_exchange.h"

namespace lockstep::planner {

using Kind = layout::Recompute::Kind;

double kept_bytes(const arch::ModelConfig& model, const MicrobatchSize& microbatch, const layout::ParallelPlan& plan, Kind kind,
                  double element_bytes) {
  const double rows = static_cast<double>(microbatch.samples * microbatch.positions) / plan.cp, ranks = plan.tp;
  const auto width = static_cast<double>(model.width);
  const double outside = plan.sequence ? width / ranks : width;
  double elements = outside;
  if (kind != Kind::full) {
    const std::int64_t normalised = model.qk_norm ? model.heads + model.kv_heads : 0;  // beside what goes in
    const std::int64_t heads = (2 * model.heads + 2 * model.kv_heads + normalised) * model.head_size;
    const double branches = model.post_norm ? 2 * outside : 0;
    elements += outside + branches + static_cast<double>(heads) / ranks + kept_beside(model, plan);
  }
  if (kind == Kind::none) elements += static_cast<double>((model.gated ? 2 : 1) * model.ffn_width) / ranks;
  return element_bytes * rows * elements;
}

std::int64_t last_together(std::int64_t blocks, const layout::Recompute& recompute) {
  if (recompute.kind == Kind::none) return 0;
  return recompute.kind == Kind::full ? (blocks - 1) % recompute.every + 1 : 1;
}

}  // namespace lockstep::planner
