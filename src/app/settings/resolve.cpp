#include "app/settings/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "app/config_file.h"
#include "app/settings/keys.h"
#include "app/settings/presets.h"
#include "app/settings/source_shape.h"
#include "checkpoint/find.h"

namespace lockstep::settings {
namespace {

struct Setting {
  std::string name, value;
  bool is_preset() const { return name.find('.') == std::string::npos; }
};

void append(std::vector<Problem>& problems, std::vector<Problem> more) {
  problems.insert(problems.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

void set(app::RunConfig& config, const Setting& setting, std::vector<Problem>& problems) {
  const Key* key = find_key(setting.name);
  if (key == nullptr) {
    problems.push_back(unknown_key(setting.name));
  } else if (auto problem = assign(config, *key, value_from_text(*key, setting.value))) {
    problems.push_back(std::move(*problem));
  }
}

std::vector<Setting> split(const std::vector<std::string>& overrides, std::vector<Problem>& problems) {
  std::vector<Setting> settings;
  for (const std::string& word : overrides) {
    const std::size_t begin = word.find_first_not_of('+');  // +group=option adds a bundle: the same here
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || begin >= equals) {
      problems.push_back({fmt::format("'{}' is no setting", word), "write group.key=value or group=option"});
    } else {
      settings.push_back({word.substr(begin, equals - begin), word.substr(equals + 1)});
    }
  }
  return settings;
}

void apply_preset(app::RunConfig& config, const Setting& setting, std::vector<Problem>& problems) {
  const Preset* preset = find_preset(setting.name, setting.value);
  if (preset == nullptr) {
    problems.push_back(unknown_preset(setting.name, setting.value));
    return;
  }
  for (const Setting& one : split(preset->assignments, problems)) set(config, one, problems);
}

std::vector<Problem> apply(app::RunConfig& config, const std::vector<std::string>& files, const std::vector<Setting>& settings) {
  std::vector<Problem> problems;
  for (const std::string& file : files) append(problems, app::read_config_file(file, config));
  for (const Setting& one : settings) {
    if (one.is_preset()) apply_preset(config, one, problems);
  }
  for (const Setting& one : settings) {
    if (!one.is_preset()) set(config, one, problems);
  }
  return problems;
}

// The settings that a run to be resumed was started with; empty when there are none.
std::string own_settings(const app::RunConfig& config) {
  if (!app::may_resume(config) || (!config.log.dir && !config.log.name)) return "";
  const std::string run = app::run_folder(config, ""), file = run + "/config.toml";
  if (config.train.init_from == "auto" && !checkpoint::has_checkpoints(run)) return "";  // it starts from scratch
  return std::filesystem::exists(file) ? file : "";
}

// A warm-up asked for that never ends is a mistake; the default one in a short run is only worth a warning.
std::vector<Problem> check_warmup(const app::RunConfig& config, const std::vector<Setting>& settings) {
  const app::RunConfig::Train& train = config.train;
  const auto asks = [](const Setting& setting) { return setting.name == "train.warmup_iters"; };
  if (train.warmup_iters <= train.max_iters || std::none_of(settings.begin(), settings.end(), asks)) return {};
  return {{fmt::format("train.warmup_iters = {} is above train.max_iters = {}", train.warmup_iters, train.max_iters),
           "choose a shorter warm-up or a longer run"}};
}

// The rule of WordPlay for short runs, and what else deserves a word.
void settle(Resolved& resolved) {
  app::RunConfig::Train& train = resolved.config.train;
  if (train.max_iters < train.log_interval) {
    const std::int64_t interval = std::max<std::int64_t>(1, train.max_iters / 20);
    resolved.warnings.push_back(fmt::format("train.max_iters = {} is below train.log_interval = {}: logging every {} iterations",
                                            train.max_iters, train.log_interval, interval));
    train.log_interval = interval;
  }
  if (resolved.config.optimizer.decay_lr && train.warmup_iters > train.max_iters) {
    resolved.warnings.push_back(
        fmt::format("train.warmup_iters = {} is above train.max_iters = {}: the learning rate stays below its highest",
                    train.warmup_iters, train.max_iters));
  }
}

}  // namespace

void Sources::declare(app::CommandLine& line) {
  line.option("--config", files, "FILE", "settings from a TOML file");
  line.overrides(overrides, "one setting (lockstep help config); group=option: a bundle of them");
}

Resolved resolve(const Sources& sources, const std::function<std::vector<Problem>(const app::RunConfig&)>& also) {
  std::vector<Problem> problems;
  const std::vector<Setting> settings = split(sources.overrides, problems);
  Resolved resolved;
  std::vector<Problem> found = apply(resolved.config, sources.files, settings);
  if (const std::string own = own_settings(resolved.config); !own.empty()) {
    std::vector<std::string> files = {own};
    files.insert(files.end(), sources.files.begin(), sources.files.end());
    resolved.config = {};
    found = apply(resolved.config, files, settings);
    resolved.warnings.push_back(fmt::format("Resuming with the settings of {} and, on top, those given here", own));
  }
  if (const std::optional<SourceShape> source = source_shape(resolved.config)) {
    resolved.config = {};
    take_shape(resolved.config, *source);
    found = apply(resolved.config, sources.files, settings);
    append(found, check_shape(resolved.config, *source));
  }
  append(problems, std::move(found));
  append(problems, check_warmup(resolved.config, settings));
  append(problems, app::check(resolved.config));
  append(problems, also(resolved.config));
  if (!problems.empty()) throw UserError(std::move(problems));
  settle(resolved);
  return resolved;
}

}  // namespace lockstep::settings
