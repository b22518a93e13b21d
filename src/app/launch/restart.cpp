#include "app/launch/restart.h"

#include <fmt/format.h>

#include "app/settings/resolve.h"
#include "checkpoint/find.h"

namespace lockstep::launch {
namespace {

settings::Sources sources_of(const std::vector<std::string>& words) {
  constexpr std::string_view option = "--config";
  settings::Sources sources;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == option && i + 1 < words.size()) {
      sources.files.push_back(words[++i]);
    } else if (word.starts_with("--config=")) {
      sources.files.push_back(word.substr(option.size() + 1));
    } else if (!word.starts_with('-') && word.find('=') != std::string::npos) {
      sources.overrides.push_back(word);
    }
  }
  return sources;
}

}  // namespace

Restart::Restart(std::vector<std::string> command, bool again, const std::string& generated_name, std::vector<Problem>& problems)
    : command_(std::move(command)) {
  if (command_.empty() || command_[0] != "train") return;
  try {
    const app::RunConfig config = settings::resolve(sources_of(command_)).config;
    folder_ = app::run_folder(config, generated_name);
    from_ = config.train.init_from;
    if (!again) return;
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
  if (from_ == "scratch") command.emplace_back("train.init_from=auto");
  const bool from_weights = !folder_.empty() && from_ != "scratch" && from_ != "resume" && from_ != "auto";
  if (from_weights && checkpoint::has_checkpoints(folder_)) command.emplace_back("train.init_from=resume");
  return command;
}

}  // namespace lockstep::launch
