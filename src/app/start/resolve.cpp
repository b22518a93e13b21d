#include "app/start/resolve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "app/folder/text_folder.h"
#include "app/settings/backends.h"
#include "app/settings/checks.h"
#include "app/settings/choices.h"
#include "app/settings/config_file.h"
#include "app/settings/foreign/deepspeed.h"
#include "app/settings/foreign/nanogpt.h"
#include "app/settings/foreign/other_words.h"
#include "app/settings/idle.h"
#include "app/settings/kept_paths.h"
#include "app/settings/keys.h"
#include "app/settings/presets.h"
#include "app/settings/run_layout.h"
#include "app/settings/source_shape.h"
#include "app/start/step_batch.h"
#include "base/number_text.h"
#include "base/shell.h"
#include "base/text/utf8.h"
#include "checkpoint/find.h"
#include "io/file.h"

namespace lockstep::settings {
namespace {

struct Setting {
  std::string name, value;
  std::optional<NanoGpt::Assignment> theirs = {};  // what one of nanoGPT's words sets; `value` is empty then
  bool is_preset() const { return name.find('.') == std::string::npos; }  // a bundle
};

void append(std::vector<Problem>& problems, std::vector<Problem> more) {
  problems.insert(problems.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

void set(app::RunConfig& config, const Setting& setting, std::vector<Problem>& problems) {
  if (setting.theirs) return append(problems, assign_all(config, {*setting.theirs}));
  const Key* key = find_key(setting.name);
  if (key == nullptr) {
    problems.push_back(unknown_key(setting.name));
  } else if (auto problem = assign(config, *key, value_from_text(*key, setting.value), setting.value)) {
    problems.push_back(std::move(*problem));
  }
}

// `idle` gets what nanoGPT's words name that sets nothing here.
std::vector<Setting> split(const std::vector<std::string>& overrides, std::vector<Problem>& problems,
                           std::vector<std::string>* idle = nullptr) {
  std::vector<Setting> settings;
  for (const std::string& word : overrides) {
    const std::size_t begin = word.find_first_not_of('+');  // +group=option adds a bundle: the same here
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || begin >= equals) {
      problems.push_back({fmt::format("'{}' is no setting", word), "write group.key=value or group=option"});
    } else if (const std::size_t at = invalid_utf8_at(word); at != word.npos) {
      problems.push_back(
          {fmt::format("'{}...': byte {} is not UTF-8, and a run keeps its settings as text", word.substr(0, at), at),
           "write the setting in UTF-8"});
    } else if (word.starts_with("--")) {
      NanoGpt theirs = read_nanogpt({word});
      for (NanoGpt::Assignment& one : theirs.given) settings.push_back({std::string(one.key->name), "", one});
      if (idle != nullptr) std::ranges::move(theirs.idle, std::back_inserter(*idle));
    } else {
      const std::string name = word.substr(begin, equals - begin);
      const Key* key = find_key(name);
      std::string value = word.substr(equals + 1);
      if (key == nullptr && find_preset(name, value) == nullptr && io::exists(word)) {
        problems.push_back({fmt::format("'{}' is read as a setting, and a file has this name", word), "write ./" + word});
      } else {
        settings.push_back({key != nullptr ? std::string(key->name) : name, std::move(value)});
      }
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

// Settings from where they come from, each over those before it.
struct Layers {
  std::optional<DeepSpeed> backend;  // what train.backend stands for, or DeepSpeed takes where its file is silent
  std::string own;                   // the file of the run that goes on; empty when there is none
  std::optional<DeepSpeed> deepspeed;
  const std::vector<std::string>& files;
  NanoGpt nanogpt;  // of its files, and what its words name that sets nothing
  std::vector<Setting> settings;
};

void apply(app::RunConfig& config, const std::optional<DeepSpeed>& file) {
  if (!file) return;
  for (const DeepSpeed::Assignment& one : file->assignments) {
    const std::optional<Problem> problem = assign(config, *find_key(one.key), one.value);
    ensure(!problem, "a reader of DeepSpeed's files has tried each value");
  }
}

std::vector<Problem> apply(app::RunConfig& config, const Layers& layers) {
  std::vector<Problem> problems;
  apply(config, layers.backend);
  const auto read = [&](const std::string& file) {
    append(problems, app::read_config_file(file, config));
    std::error_code unknown;
    if (!layers.own.empty() && std::filesystem::equivalent(file, layers.own, unknown))
      find_kept_paths(config, io::folder_of(layers.own));
  };
  if (!layers.own.empty()) read(layers.own);
  apply(config, layers.deepspeed);
  for (const std::string& file : layers.files) read(file);
  append(problems, assign_all(config, layers.nanogpt.given));
  for (const Setting& one : layers.settings) {
    if (one.is_preset()) apply_preset(config, one, problems);
  }
  for (const Setting& one : layers.settings) {
    if (!one.is_preset()) set(config, one, problems);
  }
  return problems;
}

// The file that train.ds_config_path names; where no other backend is asked for, it is DeepSpeed's.
DeepSpeed read_deepspeed_file(const app::RunConfig::Train& asked) {
  DeepSpeed file;
  try {
    file = read_deepspeed(io::read_file(*asked.ds_config_path), *asked.ds_config_path);
  } catch (const UserError& error) {
    file.problems = error.problems();
  }
  if (!find_backend(asked.backend).deepspeed) file.assignments.push_back({"presence", "train.backend", "deepspeed"});
  return file;
}

std::vector<Problem> take_deepspeed(Resolved& resolved, const DeepSpeed& file, std::optional<std::int64_t> ranks) {
  std::vector<Problem> problems = file.problems;
  settle_schedule(resolved.config, file);
  if (ranks) append(problems, settle_batch(resolved.config, file, app::replicas_of(resolved.config, *ranks)));
  if (const std::string taken = taken_unsaid(resolved.config, file); !taken.empty())
    resolved.notes.push_back(fmt::format("{}: {}", *resolved.config.train.ds_config_path, taken));
  for (std::string& line : overruled(resolved.config, file)) resolved.warnings.push_back(std::move(line));
  resolved.warnings.insert(resolved.warnings.end(), file.notes.begin(), file.notes.end());
  if (!file.idle.empty()) {
    resolved.notes.push_back(
        fmt::format("{}: nothing to do here for {}", *resolved.config.train.ds_config_path, fmt::join(file.idle, ", ")));
  }
  return problems;
}

// The settings that a run to be resumed was started with; empty when there are none. `given`: some come from other files.
std::string own_settings(const app::RunConfig& config, bool given, std::vector<Problem>& problems) {
  if (!app::may_resume(config) || (!config.log.dir && !config.log.name)) return "";
  const std::string run = app::run_folder(config, "");
  std::string file = run + "/config.toml";
  if (config.train.init_from.kind == app::InitFrom::Kind::automatic && !checkpoint::has_checkpoints(run))
    return "";  // it starts from scratch
  if (io::exists(file)) return file;
  if (!given && checkpoint::has_checkpoints(run)) {
    problems.push_back({fmt::format("{} is not there: it has the settings that the run of this folder goes on with", file),
                        "put it back, or name a file with the settings of the run: --config FILE"});
  }
  return "";
}

// Whether nothing says what model a new run trains, nor how long.
bool leaves_open(const Sources& sources, const app::RunConfig& config, const Layers& layers) {
  const bool new_run = config.train.init_from.kind == app::InitFrom::Kind::scratch ||
                       (config.train.init_from.kind == app::InitFrom::Kind::automatic && layers.own.empty());
  const bool files = !sources.files.empty() || !sources.nanogpt.empty() || config.train.ds_config_path;
  const auto says = [](const Setting& setting) {
    return setting.name.starts_with("model") || setting.name == "train" || setting.name == "train.max_iters" ||
           setting.name == "train.max_epochs";
  };
  return new_run && !files && !config.train.eval_only && std::ranges::none_of(layers.settings, says);
}

using Names = std::set<std::string_view>;

// What the user asked for: the keys that words name, and those of files and bundles that change something. A recipe that lists
// every key asks for none of its defaults.
Names asked_for(const app::RunConfig& config, const app::RunConfig& unsaid, const Layers& layers) {
  Names names;
  for (const Setting& one : layers.settings) {
    if (const Key* key = find_key(one.name)) names.insert(key->name);
  }
  for (const NanoGpt::Assignment& one : layers.nanogpt.given) names.insert(one.key->name);
  app::RunConfig without = unsaid;
  const std::vector<std::string> no_files;
  apply(without,
        {.backend = layers.backend, .own = layers.own, .deepspeed = {}, .files = no_files, .nanogpt = {}, .settings = {}});
  for (const Key& key : keys()) {
    if (key.get(config).dump() != key.get(without).dump()) names.insert(key.name);
  }
  return names;
}

// The micro-batches of all ranks, as nanoGPT counts them; null where nothing says them, or a later word those of one rank.
NanoGpt::Assignment* shared_accumulation(Layers& layers) {
  NanoGpt::Assignment* last = nullptr;
  for (std::vector<NanoGpt::Assignment>* assignments : {&layers.nanogpt.defaults, &layers.nanogpt.given}) {
    for (NanoGpt::Assignment& one : *assignments) {
      if (one.key->name == "optimizer.gas") last = &one;
    }
  }
  for (Setting& one : layers.settings) {
    if (one.name == "optimizer.gas") last = one.theirs ? &*one.theirs : nullptr;
  }
  return last;
}

// WordPlay's other word for train.dtype.
void settle_precision(app::RunConfig::Train& train, const Names& asked, std::vector<Problem>& problems) {
  if (!train.precision || train.precision->type == train.dtype.type) return;
  const bool both = asked.contains("train.dtype") && asked.contains("train.precision");
  if (both) {
    problems.push_back({fmt::format("train.precision = {}, and train.dtype = {}: they say the same of a run",
                                    word_of(*train.precision), word_of(train.dtype)),
                        fmt::format("train.dtype={}, or leave one of them out", word_of(*train.precision))});
  } else if (asked.contains("train.dtype")) {
    train.precision.reset();
  } else {
    train.dtype = *train.precision;
  }
}

std::vector<std::string> idle_lines(const app::RunConfig& config, const Names& asked, std::optional<std::int64_t> ranks) {
  std::vector<std::string> lines;
  for (const Key& key : keys()) {
    const std::string_view why = asked.contains(key.name) ? idle_reason(key, {config, ranks}) : "";
    if (!why.empty()) lines.push_back(fmt::format("{} = {}: {}", key.name, shown(key.get(config)), why));
  }
  return lines;
}

// A warm-up asked for that never ends is a mistake; the default one in a short run is only worth a warning.
std::vector<Problem> check_warmup(const app::RunConfig& config, const std::vector<Setting>& settings) {
  const app::RunConfig::Train& train = config.train;
  const auto asks = [](const Setting& setting) { return setting.name == "train.warmup_iters"; };
  if (train.max_epochs || train.warmup_iters <= train.max_iters || std::none_of(settings.begin(), settings.end(), asks))
    return {};
  return {{fmt::format("train.warmup_iters = {} is above train.max_iters = {}", train.warmup_iters, train.max_iters),
           "choose a shorter warm-up or a longer run"}};
}

// Leaves out what is said, behind the first `own` problems, of settings that one of these refuses: they have their defaults
// there.
void leave_out_consequences(std::vector<Problem>& problems, std::size_t own) {
  const auto says = [](const Problem& problem, const Key& key) {
    return problem.message.find(fmt::format("{} = ", key.name)) != std::string::npos;
  };
  for (const Key& key : keys()) {
    const auto first = problems.begin() + static_cast<std::ptrdiff_t>(own);
    if (std::any_of(problems.begin(), first, [&](const Problem& problem) { return says(problem, key); }))
      problems.erase(std::remove_if(first, problems.end(), [&](const Problem& problem) { return says(problem, key); }),
                     problems.end());
  }
}

// The rule of WordPlay for short runs, and what else deserves a word.
void settle(Resolved& resolved) {
  app::RunConfig::Train& train = resolved.config.train;
  if (resolved.config.adapter.rank > 0 && train.init_from.kind == app::InitFrom::Kind::scratch) {
    resolved.warnings.push_back(fmt::format(
        "adapter.rank = {}: the model beside the adapters is drawn and stays so; name one with train.init_from=FOLDER",
        resolved.config.adapter.rank));
  }
  if (train.max_epochs) return;  // how many iterations they have the text will tell
  if (train.max_iters < train.log_interval) {
    const std::int64_t interval = std::max<std::int64_t>(1, train.max_iters / 20);
    resolved.warnings.push_back(fmt::format("train.max_iters = {} is below train.log_interval = {}: logging every {} iterations",
                                            train.max_iters, train.log_interval, interval));
    train.asked_log_interval = std::exchange(train.log_interval, interval);
  }
  if (const std::string odd = app::odd_rates(resolved.config); !odd.empty()) resolved.warnings.push_back(odd);
}

}  // namespace

std::string Resolved::idle_text() const {
  return idle.empty() ? "" : fmt::format("Settings that change nothing in this run:\n  {}", fmt::join(idle, "\n  "));
}

void Sources::declare(app::CommandLine& line) {
  line.option("--config", files, "FILE", "settings from a TOML file");
  line.overrides(overrides, "one setting (lockstep help config); group=option: a bundle of them");
  line.undeclared(app::other_words(app::WordsOf::settings));
}

void Sources::declare_nanogpt(app::CommandLine& line) {
  line.foreign(nanogpt_names(), ".py", nanogpt, "--name=value, FILE.py",
               "settings by the names of nanoGPT's train.py, and its configuration files, of whose lines each is NAME = LITERAL; "
               "a file brings train.py's own defaults");
}

Resolved resolve(const Sources& sources, const std::function<std::vector<Problem>(const app::RunConfig&)>& also) {
  std::vector<Problem> problems;
  Layers layers{.backend = {}, .own = "", .deepspeed = {}, .files = sources.files, .nanogpt = {}, .settings = {}};
  layers.nanogpt = read_nanogpt(sources.nanogpt);
  layers.settings = split(sources.overrides, problems, &layers.nanogpt.idle);
  append(problems, layers.nanogpt.problems);
  app::RunConfig unsaid;  // what counts where nothing is said
  append(problems, assign_all(unsaid, layers.nanogpt.defaults));
  Resolved resolved{.config = unsaid, .warnings = {}, .notes = {}};
  std::vector<Problem> found = apply(resolved.config, layers);
  if (resolved.config.train.ds_config_path) {
    layers.deepspeed = read_deepspeed_file(resolved.config.train);
    layers.backend.emplace().assignments = layers.deepspeed->unsaid;
  } else if (find_backend(resolved.config.train.backend).deepspeed) {
    layers.backend = deepspeed_defaults();
  }
  layers.own = own_settings(resolved.config, !sources.files.empty() || !sources.nanogpt.empty(), problems);
  if (!layers.own.empty()) {
    resolved.warnings.push_back(fmt::format("Resuming with the settings of {} and, on top, those given here", layers.own));
  }
  const auto again = [&] {
    resolved.config = unsaid;
    found = apply(resolved.config, layers);
  };
  if (layers.backend || layers.deepspeed || !layers.own.empty()) again();
  if (NanoGpt::Assignment* const shared = shared_accumulation(layers); shared != nullptr && sources.ranks) {
    append(problems, share_accumulation(*shared, app::replicas_of(resolved.config, *sources.ranks)));
    assign_all(unsaid, layers.nanogpt.defaults);
    again();
  }
  if (const std::optional<SourceShape> source = source_shape(resolved.config)) {
    take_shape(unsaid, *source);
    again();
    append(found, check_shape(resolved.config, *source));
    if (std::string note = cropping_note(resolved.config, *source); !note.empty()) resolved.notes.push_back(std::move(note));
  }
  if (!sources.choice.empty() && leaves_open(sources, resolved.config, layers)) {
    resolved.chosen = true;
    for (const Setting& one : split(sources.choice, problems)) set(unsaid, one, problems);
    again();
  }
  append(problems, std::move(found));
  const std::size_t own = problems.size();
  app::name_text_folder(resolved.config);
  const Names asked = asked_for(resolved.config, unsaid, layers);
  settle_precision(resolved.config.train, asked, problems);
  if (layers.deepspeed) append(problems, take_deepspeed(resolved, *layers.deepspeed, sources.ranks));
  if (sources.ranks) append(problems, app::settle_tokens(resolved.config, asked.contains("optimizer.gas"), *sources.ranks));
  if (!layers.own.empty()) append(problems, check_kept_schedule(resolved.config, io::folder_of(layers.own)));
  append(problems, check_warmup(resolved.config, layers.settings));
  append(problems, app::check(resolved.config));
  append(problems, also(resolved.config));
  leave_out_consequences(problems, own);
  if (!problems.empty()) throw UserError(std::move(problems));
  resolved.idle = idle_lines(resolved.config, asked, sources.ranks);
  resolved.idle.insert(resolved.idle.end(), layers.nanogpt.idle.begin(), layers.nanogpt.idle.end());
  settle(resolved);
  return resolved;
}

}  // namespace lockstep::settings
