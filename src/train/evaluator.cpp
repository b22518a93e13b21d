#include "train/evaluator.h"

#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "arch/flops.h"
#include "base/error.h"
#include "base/units.h"
#include "layout/rounds.h"
#include "train/report/metrics.h"

namespace lockstep::train {

void demand_targets(std::int64_t targets, const data::TokenFile& file, const char* remedy) {
  if (targets > 0) return;
  throw UserError(
      fmt::format("the windows of {} that are evaluated have no target: {} masks all of them", file.path(), file.mask_path()),
      remedy);
}

std::string note_of_long_evaluation(const Engine& engine, std::int64_t batches, double peak_flops) {
  const EngineConfig& config = engine.config();
  const std::int64_t tokens = config.samples * config.positions;
  const double forward_flops = arch::training_flops_per_token(config.model, config.positions) / 3;
  const double seconds =
      static_cast<double>(batches * tokens) * forward_flops / peak_flops / static_cast<double>(engine.groups().all().size());
  constexpr double long_one = 30;
  if (seconds < long_one) return {};
  return fmt::format(
      "An evaluation reads {} batches of {} tokens, {} and more here, before the first step too: train.eval_iters makes it "
      "shorter, train.eval_interval rarer",
      batches, format_count(tokens), format_seconds(seconds));
}

std::optional<Evaluation> evaluate(Engine& engine, data::WindowSource& windows, const std::function<bool()>& given_up) {
  const parallel::Groups& groups = engine.groups();
  comm::Communicator& group = groups.data();
  const std::int64_t batches = windows.batches();
  const layout::Rounds rounds{batches, group.size()};
  // A batch's loss and tokens, 0 on the ranks that did not run it: added over ranks, then in the order of batches.
  std::vector<double> losses(static_cast<std::size_t>(batches)), tokens(losses.size());
  Evaluation result;
  for (std::int64_t round = 0; round < rounds.count(); ++round) {
    if (given_up()) return std::nullopt;
    const auto [i, counts] = rounds.turn(round, group.rank());
    const data::Batch& batch = windows.read(i);
    const double loss = engine.evaluate(batch);
    if (const auto figures = engine.figures()) {
      if (!result.figures) result.figures = SampleFigures{.names = figures->names};
      for (std::size_t f = 0; counts && f < figures->values.size(); ++f) result.figures->values[f] += figures->values[f];
    }
    if (!counts) continue;
    losses[static_cast<std::size_t>(i)] = loss;
    tokens[static_cast<std::size_t>(i)] = static_cast<double>(batch.target_count);
  }
  const auto add = [&](std::vector<double>& values, comm::Communicator& ranks) {
    ranks.host().all_reduce(view(std::span(values), Shape{batches}), comm::Reduction::sum).wait();
  };
  add(tokens, group);
  add(losses, groups.replicas());
  add(losses, groups.pipeline());  // the ranks without a head have none
  const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
  result.tokens = static_cast<std::int64_t>(std::accumulate(tokens.begin(), tokens.end(), 0.0));
  demand_targets(result.tokens, windows.file(), "evaluate more windows (train.eval_iters) or longer ones (model.block_size)");
  result.loss = sum / static_cast<double>(result.tokens);
  if (result.figures) gather(*result.figures, static_cast<double>(result.tokens), groups);
  return result;
}

}  // namespace lockstep::train
