#include "app/launch/restart.h"

#include <fmt/format.h>

#include "app/train/train_words.h"
#include "checkpoint/find.h"

namespace lockstep::launch {

Restart::Restart(std::vector<std::string> command, const RestartFacts& facts, std::vector<Problem>& problems)
    : command_(std::move(command)) {
  if (command_.empty() || command_[0] != "train") return;
  try {
    std::optional<app::TrainWords> words = app::read_train_words({command_.begin() + 1, command_.end()});
    if (!words) return;  // --help
    words->sources.ranks = facts.ranks;
    const app::RunConfig config = settings::resolve(words->sources).config;
    folder_ = app::run_folder(config, facts.generated_name);
    from_ = config.train.init_from;
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

std::vector<std::string> Restart::retry() const {
  std::vector<std::string> command = command_;
  if (!from_) return command;
  if (from_->kind == app::InitFrom::Kind::scratch) command.emplace_back("train.init_from=auto");
  if (from_->kind == app::InitFrom::Kind::folder && checkpoint::has_checkpoints(folder_))
    command.emplace_back("train.init_from=resume");
  return command;
}

}  // namespace lockstep::launch
