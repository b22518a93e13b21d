#include "train/evaluator.h"

namespace lockstep::train {

Evaluation evaluate(Engine& engine, data::WindowReader& reader) {
  double sum = 0;
  Evaluation result;
  for (std::int64_t i = 0; i < reader.batches(); ++i) {
    const data::Batch& batch = reader.read(i);
    sum += engine.evaluate(batch);
    result.tokens += batch.target_count;
  }
  result.loss = result.tokens > 0 ? sum / static_cast<double>(result.tokens) : 0;
  return result;
}

}  // namespace lockstep::train
