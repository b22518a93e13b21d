#include "app/drill/drill_copy.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/launch/environment.h"
#include "app/settings/checks.h"
#include "app/settings/run_layout.h"
#include "app/start/assemble.h"
#include "app/start/plan.h"
#include "app/start/resolve.h"
#include "app/start/resources.h"
#include "checkpoint/find.h"
#include "train/saving/named_state.h"

namespace lockstep::app {
namespace {

constexpr std::int64_t usual_steps = 30, steps_behind = 12, saves = 5;
constexpr double timeout = 15;  ///< comm.timeout of a copy, seconds: it also bounds the start of its ranks

/// The folder with the run's settings.
io::Path run_of(const std::string& named) {
  io::Path folder = io::whole_path(named);
  if (io::exists(folder / "config.toml")) return folder;
  io::Path above = folder.parent_path().parent_path();
  if (checkpoint::is_checkpoint(folder) && io::exists(above / "config.toml")) return above;
  throw UserError(fmt::format("{}: no run's folder, for it has no config.toml", named),
                  "a folder that lockstep train wrote, as runs/NAME, or one of its checkpoints");
}

bool given(const std::vector<std::string>& settings, std::string_view name) {
  return std::ranges::any_of(settings,
                             [&](const std::string& word) { return word.starts_with(name) && word[name.size()] == '='; });
}

/// What the copy does in another way than the run, unless `request` says it.
void shorten(RunConfig& config, const DrillRequest& request) {
  config.data.order = order_of(config);
  config.train.max_epochs.reset();
  if (!given(request.settings, "train.max_iters"))
    config.train.max_iters = std::max(usual_steps, request.latest_fault + steps_behind);
  if (!given(request.settings, "checkpoint.interval"))
    config.checkpoint.interval = std::max<std::int64_t>(1, config.train.max_iters / saves);
  if (!given(request.settings, "comm.timeout")) config.comm.timeout = std::min(config.comm.timeout, timeout);
  if (config.train.init_from.kind == InitFrom::Kind::resume || config.train.init_from.kind == InitFrom::Kind::automatic)
    config.train.init_from = {};
  config.train.eval_interval = config.train.max_iters;
  config.train.eval_iters = 1;
  config.train.log_interval = 1;
  config.train.eval_only = false;
  config.train.max_minutes.reset();
  config.train.kill_file.reset();
  config.train.save_file.reset();
  config.train.dump_step.reset();
  config.train.use_wandb = false;
  config.eval = {};
  config.sample.tokens = 0;
  config.log = {};
}

}  // namespace

DrillCopy copy_of(const DrillRequest& request) {
  const io::Path run = run_of(request.run);
  const auto before = [&run] {
    const Resources had = read_resources(run);
    return had.ranks + had.servers;
  };
  DrillCopy copy{.config = {}, .ranks = request.ranks ? *request.ranks : before(), .hostfile = request.hostfile};
  settings::Sources sources{.files = {(run / "config.toml").string()}, .overrides = {}, .ranks = copy.ranks};
  copy.run_timeout = settings::resolve(sources).config.comm.timeout;
  sources.overrides = request.settings;
  std::vector<Problem> problems;
  const launch::Facts facts = launch::find_facts(
      launch::this_machine(), {.ranks = copy.ranks, .hostfile = request.hostfile, .oversubscribe = true}, problems);
  copy.config = settings::resolve(sources, [&](const RunConfig& config) {
                  std::vector<Problem> all = check_ranks(config, copy.ranks);
                  all.insert(all.end(), problems.begin(), problems.end());
                  return all;
                }).config;
  shorten(copy.config, request);
  if (problems = check(copy.config); !problems.empty()) throw UserError(std::move(problems));
  const std::int64_t workers = workers_of(copy.config, copy.ranks);
  copy.ground = {.trainers = static_cast<int>(workers),
                 .steps = copy.config.train.max_iters,
                 .first_save = checkpoint_interval(copy.config),
                 .tensors = {},
                 .hosts = facts.hosts,
                 .ranks_per_host = static_cast<int>(facts.per_host)};
  if (workers < copy.ranks) return copy;
  const std::int64_t vocabulary = read_resources(run).vocabulary;
  const layout::ParallelPlan plan =
      plan_of(copy.config, model_config(copy.config, vocabulary), workers, copy.ground.ranks_per_host, true);
  for (const auto& tensor : train::weight_tensors(assemble(copy.config, unread_text(copy.config, vocabulary), plan)))
    copy.ground.tensors.push_back(tensor.name);
  return copy;
}

}  // namespace lockstep::app
