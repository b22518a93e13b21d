#include "app/launch/restart.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/settings/run_layout.h"
#include "app/start/step_batch.h"
#include "app/train/train_words.h"
#include "checkpoint/find.h"
#include "io/file.h"
#include "train/report/logged_step.h"

namespace lockstep::launch {

Restart::Restart(std::vector<std::string> command, const RestartFacts& facts, std::vector<Problem>& problems)
    : command_(std::move(command)) {
  if (command_.empty() || command_[0] != "train") return;
  try {
    std::optional<app::TrainWords> words = app::read_train_words({command_.begin() + 1, command_.end()});
    if (!words) return;  // --help
    words->sources.ranks = facts.ranks;
    const app::RunConfig& config = config_.emplace(settings::resolve(words->sources).config);
    folder_ = app::run_folder(config, facts.generated_name);
    if (facts.ranks) global_batch_ = config.model.batch_size * config.optimizer.gas * app::replicas_of(config, *facts.ranks);
    save_often(config);
    if (!facts.again) return;
    if (!config.log.dir && !config.log.name) {
      added_folder_ = folder_;
      command_.push_back("log.dir=" + folder_);
    }
    if (!app::may_resume(config) && checkpoint::has_checkpoints(folder_)) {
      problems.push_back({fmt::format("{} has checkpoints of a run already: a new one would mix with it", folder_),
                          "choose another log.dir or log.name, or go on from there with train.init_from=auto"});
    }
  } catch (const UserError& error) {
    problems.insert(problems.end(), error.problems().begin(), error.problems().end());
  }
}

void Restart::save_often(const app::RunConfig& config) {
  if (config.train.eval_only || config.checkpoint.seconds) return;
  command_.emplace_back("checkpoint.seconds=30");
  // Workers of servers cannot save beside their steps.
  if (!config.checkpoint.async && config.train.backend != app::BackendKind::ps) command_.emplace_back("checkpoint.async=true");
}

std::int64_t Restart::saved_step() const {
  if (folder_.empty()) return 0;
  try {
    return checkpoint::saved_step(folder_).value_or(0);
  } catch (const UserError&) {
    return 0;
  }
}

std::int64_t Restart::reached_step() const {
  std::int64_t step = saved_step();
  if (folder_.empty()) return step;
  try {
    train::for_each_logged(io::Path(folder_) / "metrics.jsonl",
                           [&](const Json& line) { step = std::max(step, line.at("step").integer()); });
  } catch (const std::exception&) {
    return step;  // no line behind is known
  }
  return step;
}

// A resume finds the samples of a step in its checkpoint.
void Restart::keep_samples(std::int64_t ranks, std::vector<std::string>& command) const {
  app::RunConfig config = *config_;
  std::vector<Problem> problems = app::keep_global_batch(config, *global_batch_, app::workers_of(config, ranks));
  if (!problems.empty()) throw UserError(std::move(problems));
  if (config.optimizer.gas != config_->optimizer.gas) command.push_back(fmt::format("optimizer.gas={}", config.optimizer.gas));
}

std::vector<std::string> Restart::retry(std::int64_t ranks) const {
  std::vector<std::string> command = command_;
  if (!config_) return command;
  const app::InitFrom& from = config_->train.init_from;
  if (global_batch_ && saved_step() == 0) keep_samples(ranks, command);
  if (from.kind == app::InitFrom::Kind::scratch) command.emplace_back("train.init_from=auto");
  if (from.kind == app::InitFrom::Kind::folder && checkpoint::has_checkpoints(folder_))
    command.emplace_back("train.init_from=resume");
  return command;
}

}  // namespace lockstep::launch
