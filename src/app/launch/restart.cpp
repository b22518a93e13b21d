#include "app/launch/restart.h"

#include <fmt/format.h>

#include <algorithm>

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
    if (!again) return;
    if (!config.log.dir && !config.log.name) {
      added_folder_ = folder_;
      command_.push_back("log.dir=" + folder_);
    }
    if (config.train.init_from != "resume" && has_checkpoint()) {
      problems.push_back({fmt::format("{} has checkpoints already: a retry could go on from one of another run", folder_),
                          "choose another log.dir or log.name, or go on from there with train.init_from=resume"});
    }
  } catch (const UserError& error) {
    problems.insert(problems.end(), error.problems().begin(), error.problems().end());
  }
}

bool Restart::has_checkpoint() const {
  if (folder_.empty()) return false;
  const std::vector<checkpoint::Found> found = checkpoint::list_checkpoints(folder_);
  return std::any_of(found.begin(), found.end(), [](const checkpoint::Found& one) { return one.manifest.has_value(); });
}

std::vector<std::string> Restart::retry() const {
  std::vector<std::string> command = command_;
  if (has_checkpoint()) command.emplace_back("train.init_from=resume");
  return command;
}

}  // namespace lockstep::launch
