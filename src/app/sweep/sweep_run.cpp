#include "app/sweep/sweep_run.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "app/folder/run_lock.h"
#include "app/report/run_data.h"
#include "app/start/assemble.h"
#include "app/start/memory_limit.h"
#include "app/start/roles.h"
#include "app/train/chosen_run.h"
#include "app/train/train_rank.h"
#include "base/timer.h"
#include "layout/mesh.h"

namespace lockstep::app {
namespace {

/// Deletes what is left of a run that was cut short. Throws UserError where a living run writes into its folder.
void delete_begun(const io::Path& run_folder) {
  if (!io::exists(run_folder)) return;
  const RunLock lock(run_folder);
  io::remove_folder(run_folder);
}

}  // namespace

std::vector<Problem> lacking_memory(const SweepPoint& point) {
  const RunConfig& config = point.config;
  const TextFacts text = unread_text(config, known_vocabulary(config));
  try {
    run_on_ranks(rank_options(config, point.ranks), [&](Session& session) {
      const Roles roles(config, session.world());
      const AssembledRank rank = assemble(config, text, roles, session, session.ops());
      const layout::Mesh mesh(rank.engine.plan);
      const layout::Coordinates at = roles.serves() ? layout::Coordinates() : mesh.coordinates(roles.group().rank());
      demand_memory({config, rank.engine, at, session.runtime().device(), rank.memory, roles.serves()}, session.world());
    });
  } catch (const UserError& error) {
    return error.problems();
  }
  return {};
}

io::Path log_of(io::Path run_folder) { return run_folder += ".log"; }

std::optional<SweepRun> measure(const SweepPoint& point, const RunPlace& place, const io::Path& sweep) {
  const io::Path run_folder = place.folder(sweep), log_file = log_of(run_folder);
  delete_begun(run_folder);
  io::make_folders(run_folder.parent_path());
  RunConfig config = point.config;
  config.log.dir = run_folder.string();
  config.log.name = point.label;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> log(std::fopen(log_file.c_str(), "w"), std::fclose);
  if (log == nullptr) throw SystemError(fmt::format("{} cannot be written", log_file.string()));
  train::TrainingHistory history;
  RankOptions ranks = rank_options(config, point.ranks);
  ranks.prepare = [&] {
    Log data_log(log.get());
    prepare_data(config, data_log);
  };
  run_on_ranks(ranks, [&](Session& session) {
    train::TrainingHistory own =
        train_rank(config, {.arguments = {"sweep"}, .started = now_seconds(), .name = "", .out = log.get()}, session);
    if (session.lead()) history = std::move(own);
  });
  if (history.stopped) return std::nullopt;
  if (io::exists(run_folder / "checkpoints")) io::remove_folder(run_folder / "checkpoints");
  const RunData data = read_runs({run_folder.string()}).front();
  SweepRun run{.point = place.point,
               .repeat = place.repeat,
               .tokens_per_second = data.tokens_per_second(),
               .mfu = data.mfu(),
               .thread_peak = data.thread_peak(),
               .step_tokens = data.steps.back().tokens,
               .losses = {},
               .diverged = history.diverged.has_value()};
  if (data.resources) run.bytes = data.resources->all_bytes();
  for (const train::LoggedStep& step : data.steps) run.losses.push_back(step.loss);
  return run;
}

}  // namespace lockstep::app
