#include "train/audit/audit_memory.h"

#include "train/objective/objective.h"

namespace lockstep::train {

void AuditMemory::declare(Arena& gradients_again, Arena& host, const EngineConfig& config, const RankPart& part) {
  if (config.audit == 0) return;
  gradients.declare(gradients_again, part.units, gradient_work(config, part, config.plan.dp * config.plan.cp));
  const Shape rows{config.samples * config.positions};
  host.declare(tokens, "audited tokens", rows, DType::i32);
  host.declare(targets, "audited targets", rows, DType::i32);
  if (make_sample_loss(config.objective)) host.declare(references, "audited references", Shape{config.samples}, DType::f64);
}

}  // namespace lockstep::train
