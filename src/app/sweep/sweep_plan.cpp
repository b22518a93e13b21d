#include "app/sweep/sweep_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>

#include "app/settings/checks.h"
#include "app/settings/keys.h"
#include "app/settings/presets.h"
#include "app/settings/run_layout.h"
#include "app/start/plan.h"
#include "app/start/resolve.h"
#include "app/start/session.h"
#include "base/number_text.h"
#include "io/file.h"
#include "lab/layouts.h"

namespace lockstep::app {
namespace {

constexpr std::size_t most_values = 100, most_points = 1000;
constexpr std::string_view kRanks = "ranks", kLayout = "layout";

std::optional<double> finite_from(const std::string& text) {
  const auto value = number_from<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

/// lo, lo + step, ... up to hi.
std::vector<std::string> range_of(const std::string& word, const std::string& value, std::vector<Problem>& problems) {
  const std::vector<std::string> parts = parts_of_list(value, ':');
  std::vector<double> ends;
  for (const std::string& part : parts) {
    if (const auto number = finite_from(part)) ends.push_back(*number);
  }
  if (ends.size() != 3 || parts.size() != 3) {
    problems.push_back({fmt::format("{}: is no range", word), "write KEY=lo:hi:step, as model.batch_size=4:16:4"});
    return {};
  }
  const double count = std::floor((ends[1] - ends[0]) / ends[2] + 1e-9) + 1;
  if (ends[2] <= 0 || count < 1) {
    problems.push_back({fmt::format("{}: the range is empty", word), "lo is at most hi, and step above 0, as 4:16:4"});
    return {};
  }
  if (count > static_cast<double>(most_values)) {
    problems.push_back({fmt::format("{}: the range has {:.0f} values, more than {}", word, count, most_values), "a larger step"});
    return {};
  }
  std::vector<std::string> values;
  for (int i = 0; i < static_cast<int>(count); ++i) values.push_back(fmt::format("{:.12g}", ends[0] + i * ends[2]));
  return values;
}

/// Whether the values of `name` are texts, in which a colon makes no range. `key` is null for a bundle and for "ranks".
bool takes_text(std::string_view name, const settings::Key* key) {
  return key != nullptr ? key->type == settings::Type::text : name != kRanks;
}

/// Values of a word; one where it names no several.
std::vector<std::string> values_of(const std::string& word, bool text, const std::string& value, std::vector<Problem>& problems) {
  if (value.find(';') != std::string::npos) return parts_of_list(value, ';');
  if (value.find(',') != std::string::npos) return parts_of_list(value, ',');
  if (!text && value.find(':') != std::string::npos) return range_of(word, value, problems);
  return {value};
}

bool names_several(bool text, const std::string& value) { return value.find_first_of(text ? ",;" : ",;:") != std::string::npos; }

void add_axis(SweepWords& words, const std::string& word, SweepAxis axis, std::vector<Problem>& problems) {
  if (std::ranges::all_of(axis.values, &std::string::empty)) {
    problems.push_back({fmt::format("{}: names no value", word), "write KEY=a,b,c"});
    return;
  }
  if (std::ranges::find(axis.values, "") != axis.values.end()) {
    problems.push_back({fmt::format("{}: names an empty value", word), "a value on both sides of each separator: KEY=a,b,c"});
    return;
  }
  std::vector<std::string> sorted = axis.values;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    problems.push_back({fmt::format("{}: names {} twice", word, *twice), "name each value once"});
  if (std::ranges::find(words.axes, axis.key, &SweepAxis::key) != words.axes.end())
    problems.push_back({fmt::format("{}: {} is swept twice", word, axis.key), "name all its values in one word"});
  words.axes.push_back(std::move(axis));
}

std::optional<std::int64_t> ranks_from(const std::string& text, std::vector<Problem>& problems) {
  const std::optional<double> value = finite_from(text);
  if (value && *value == std::floor(*value) && *value >= 1 && *value <= static_cast<double>(most_ranks()))
    return static_cast<std::int64_t>(*value);
  problems.push_back({fmt::format("ranks = {}: must be an integer from 1 to {}", text, most_ranks()), "ranks=1,2"});
  return std::nullopt;
}

/// What is no matter of comparing short runs; settings that the user gives stand above it.
std::vector<std::string> small_words() { return {"train.eval_iters=1", "sample.tokens=0", "checkpoint.interval=1000000000"}; }

bool names(const std::vector<std::string>& words, std::string_view key) {
  return std::ranges::any_of(words, [&](const std::string& word) { return word.substr(0, word.find('=')) == key; });
}

/// All that is wrong, each once.
void tell(std::vector<Problem>& problems, const std::vector<Problem>& more) {
  for (const Problem& problem : more) {
    if (std::ranges::find(problems, problem.message, &Problem::message) == problems.end()) problems.push_back(problem);
  }
}

/// The values of settings and bundles that are none of theirs, whatever they are combined with.
void check_values(const SweepWords& words, std::vector<Problem>& problems) {
  for (const SweepAxis& axis : words.axes) {
    const settings::Key* key = settings::find_key(axis.key);
    for (const std::string& value : axis.values) {
      RunConfig trial;
      std::optional<Problem> problem;
      if (key != nullptr) {
        problem = settings::assign(trial, *key, settings::value_from_text(*key, value), value);
      } else if (axis.key != kRanks && axis.key != kLayout && settings::find_preset(axis.key, value) == nullptr) {
        problem = settings::unknown_preset(axis.key, value);
      }
      if (problem) tell(problems, {*problem});
    }
  }
}

/// The sources of a point's settings: first `below`, then those of all points, then its own, then `above`.
settings::Sources sources_of(const SweepPoint& point, const SweepRequest& request, std::vector<std::string> below = {},
                             const std::vector<std::string>& above = {}) {
  settings::Sources sources{.files = request.files, .overrides = std::move(below)};
  for (const std::vector<std::string>* words : {&request.words.fixed, &point.words, &above})
    sources.overrides.insert(sources.overrides.end(), words->begin(), words->end());
  return sources;
}

/// Ranks of points for which nothing says them: those that their degrees ask for. Who leaves parallel.dp open gets as many as the
/// largest of all, as far as its other degrees divide them. settle_recipe() tells of problems.
void settle_ranks(std::vector<SweepPoint>& points, const SweepRequest& request) {
  std::int64_t most = 1;
  std::vector<std::optional<RunConfig>> configs;
  for (const SweepPoint& point : points) {
    std::optional<RunConfig>& config = configs.emplace_back();
    if (point.ranks > 0) continue;
    try {
      config = settings::resolve(sources_of(point, request)).config;
      most = std::max(most, ranks_of_model(*config) * config->parallel.dp.value_or(1) + servers_of(*config));
    } catch (const UserError&) {
      config.reset();
    }
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].ranks > 0) continue;
    points[i].ranks = 1;
    if (!configs[i]) continue;
    const std::int64_t model = ranks_of_model(*configs[i]), servers = servers_of(*configs[i]);
    const std::int64_t left = std::max<std::int64_t>(1, (most - servers) / model);
    points[i].ranks = model * configs[i]->parallel.dp.value_or(left) + servers;
  }
}

/// The recipe of a point. Throws UserError for one that cannot be; returns what keeps it from running here.
std::vector<Problem> settle_recipe(SweepPoint& point, const SweepRequest& request) {
  if (point.ranks > most_ranks()) return {{fmt::format("{} ranks, more than {}", point.ranks, most_ranks()), "smaller degrees"}};
  settings::Sources sources = sources_of(point, request);
  sources.ranks = point.ranks;
  point.recipe = settings::resolve(sources, [&](const RunConfig& config) { return check_ranks(config, point.ranks); }).config;
  std::vector<Problem> problems = check_runnable(point.recipe);
  const std::optional<std::string>& data = point.recipe.data.dir;
  if (const std::string why = data ? io::why_no_folder(*data) : ""; !why.empty()) {
    problems.push_back(
        {fmt::format("data.dir = {}: {}", *data, why), fmt::format("make it: lockstep prepare TEXT --out {}", *data)});
  }
  return problems;
}

double step_tokens(const SweepPoint& point) {
  const RunConfig& config = point.recipe;
  return static_cast<double>(config.model.batch_size * config.model.block_size * config.optimizer.gas) *
         replicas_of(config, point.ranks);
}

/// What its runs have, `steps` long. A warm-up that the command does not say ends in their first tenth.
void settle_run(SweepPoint& point, const SweepRequest& request, std::int64_t steps) {
  std::vector<std::string> own{fmt::format("train.max_iters={}", steps), "train.max_epochs=null", "train.log_interval=1",
                               "train.eval_interval=1000000000", "train.init_from=scratch"};
  if (!names(request.words.fixed, "train.warmup_iters") && !names(point.words, "train.warmup_iters")) {
    const std::int64_t tenth = std::max<std::int64_t>(1, steps / 10);
    own.push_back(fmt::format("train.warmup_iters={}", std::min(point.recipe.train.warmup_iters, tenth)));
  }
  settings::Sources sources = sources_of(point, request, small_words(), own);
  sources.ranks = point.ranks;
  settings::Resolved first = settings::resolve(sources);
  point.config = std::move(first.config);
  point.idle = std::move(first.idle);
  point.draws_seed = settings::resolve(sources).config.train.seed != point.config.train.seed;
}

/// Moves points for which `settle` throws a UserError or returns problems to `left_out`.
template <class Settle>
void settle_each(SweepPlan& plan, Settle settle) {
  std::erase_if(plan.points, [&](SweepPoint& point) {
    std::vector<Problem> why;
    try {
      why = settle(point);
    } catch (const UserError& error) {
      why = error.problems();
    }
    if (!why.empty()) plan.left_out.push_back({point.label, why});
    return !why.empty();
  });
}

}  // namespace

SweepWords sweep_words(const std::vector<std::string>& words, std::vector<Problem>& problems) {
  SweepWords found;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    const settings::Key* key = settings::find_key(name);
    if (key != nullptr) name = key->name;
    const bool text = takes_text(name, key);
    if (name == kRanks || names_several(text, value)) {
      if (key == nullptr && name != kRanks && settings::options_of(name).empty()) {
        problems.push_back(settings::unknown_key(name));
        continue;
      }
      const std::size_t before = problems.size();
      std::vector<std::string> values = values_of(word, text, value, problems);
      if (problems.size() == before) add_axis(found, word, {name, std::move(values)}, problems);
    } else {
      found.fixed.push_back(word);
    }
  }
  for (const std::string& word : found.fixed) {
    std::string name = word.substr(0, word.find('='));
    if (const settings::Key* key = settings::find_key(name)) name = key->name;
    const auto axis = std::ranges::find(found.axes, name, &SweepAxis::key);
    if (axis != found.axes.end())
      problems.push_back({fmt::format("{}: {} is swept over {}, too", word, name, fmt::join(axis->values, ", ")),
                          "name all its values in one word"});
  }
  for (const std::string_view own : {"train.max_iters", "train.max_epochs", "train.log_interval", "train.eval_interval",
                                     "train.init_from", "log.dir", "log.name"}) {
    if (names(words, own))
      problems.push_back({fmt::format("{} is the sweep's own", own), "leave it out; --steps and --out say how long and where"});
  }
  return found;
}

void add_layouts(SweepWords& words, const std::string& layouts, std::vector<Problem>& problems) {
  const std::string word = fmt::format("--layouts {}", layouts);
  add_axis(words, word, {std::string(kLayout), parts_of_list(layouts, ';')}, problems);
}

SweepPlan sweep_points(const SweepRequest& request) {
  std::vector<Problem> problems;
  std::size_t count = 1;
  for (const SweepAxis& axis : request.words.axes) count *= std::min(axis.values.size(), most_points + 1);
  if (count > most_points) {
    throw UserError(fmt::format("the sweep has {} combinations, more than {}", count, most_points),
                    "fewer values, or one setting at a time");
  }
  check_values(request.words, problems);
  SweepPlan plan{.points = std::vector<SweepPoint>(count), .left_out = {}};
  for (std::size_t i = 0; i < count; ++i) {
    SweepPoint& point = plan.points[i];
    point.ranks = request.ranks.value_or(0);
    std::size_t each = count, rest = i;
    for (const SweepAxis& axis : request.words.axes) {
      each /= axis.values.size();
      const std::string& value = axis.values[rest / each];
      rest %= each;
      const std::string word = axis.key == kLayout ? value : axis.key + "=" + value;
      point.label += (point.label.empty() ? "" : " ") + word;
      std::vector<Problem> wrong;
      if (axis.key == kLayout) {
        std::ranges::move(lab::settings_from(value, wrong), std::back_inserter(point.words));
      } else if (axis.key != kRanks) {
        point.words.push_back(word);
      } else if (const auto ranks = ranks_from(value, wrong)) {
        point.ranks = *ranks;
      }
      tell(problems, wrong);
    }
  }
  if (!problems.empty()) throw UserError(std::move(problems));
  settle_ranks(plan.points, request);
  settle_each(plan, [&](SweepPoint& point) { return settle_recipe(point, request); });
  double most = 0;
  for (const SweepPoint& point : plan.points) most = std::max(most, step_tokens(point));
  settle_each(plan, [&](SweepPoint& point) {
    const double steps = std::ceil(static_cast<double>(request.steps) * most / step_tokens(point));
    settle_run(point, request, static_cast<std::int64_t>(steps));
    return std::vector<Problem>();
  });
  if (plan.points.empty()) {
    for (const LeftOut& one : plan.left_out) tell(problems, one.why);
    throw UserError(std::move(problems));
  }
  return plan;
}

}  // namespace lockstep::app
