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
    const double heads = static_cast<double>(2 * model.heads + 2 * model.kv_heads) * static_cast<double>(model.head_size);
    elements += outside + heads / ranks + kept_beside(model, plan);
  }
  if (kind == Kind::none) elements += static_cast<double>((model.gated ? 2 : 1) * model.ffn_width) / ranks;
  return element_bytes * rows * elements;
}

std::int64_t last_together(std::int64_t blocks, const layout::Recompute& recompute) {
  if (recompute.kind == Kind::none) return 0;
  return recompute.kind == Kind::full ? (blocks - 1) % recompute.every + 1 : 1;
}

}  // namespace lockstep::planner
