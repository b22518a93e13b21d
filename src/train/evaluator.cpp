#include "train/evaluator.h"

#include <numeric>
#include <vector>

namespace lockstep::train {

Evaluation evaluate(Engine& engine, data::WindowReader& reader) {
  comm::Communicator& world = engine.world();
  const std::int64_t batches = reader.batches();
  // A batch's loss and tokens, 0 on the ranks that did not run it: added over ranks, then in the order of batches.
  std::vector<double> losses(static_cast<std::size_t>(batches)), tokens(losses.size());
  for (std::int64_t i = world.rank(); i < batches; i += world.size()) {
    const data::Batch& batch = reader.read(i);
    losses[static_cast<std::size_t>(i)] = engine.evaluate(batch);
    tokens[static_cast<std::size_t>(i)] = static_cast<double>(batch.target_count);
  }
  for (std::vector<double>* values : {&losses, &tokens}) {
    world.all_reduce(view(std::span(*values), Shape{batches}), comm::Reduction::sum).wait();
  }
  const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
  Evaluation result;
  result.tokens = static_cast<std::int64_t>(std::accumulate(tokens.begin(), tokens.end(), 0.0));
  result.loss = result.tokens > 0 ? sum / static_cast<double>(result.tokens) : 0;
  return result;
}

}  // namespace lockstep::train
