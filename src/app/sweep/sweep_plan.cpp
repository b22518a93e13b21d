#include "app/sweep/sweep_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "app/settings/checks.h"
#include "app/settings/keys.h"
#include "app/settings/run_layout.h"
#include "app/start/plan.h"
#include "app/start/resolve.h"
#include "base/number_text.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

constexpr std::size_t most_values = 100, most_points = 1000;

std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts = parts_of_list(text, separator);
  std::erase(parts, "");
  return parts;
}

std::optional<double> finite_from(const std::string& text) {
  const auto value = number_from<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

/// lo, lo + step, ... up to hi.
std::vector<std::string> range_of(const std::string& word, const std::string& value, std::vector<Problem>& problems) {
  const std::vector<std::string> parts = parts_of(value, ':');
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

bool takes_text(const settings::Key* key) { return key != nullptr && key->type == settings::Type::text; }

/// Values of a word; one where it names no several.
std::vector<std::string> values_of(const std::string& word, const settings::Key* key, const std::string& value,
                                   std::vector<Problem>& problems) {
  if (value.find(';') != std::string::npos) return parts_of(value, ';');
  if (value.find(',') != std::string::npos) return parts_of(value, ',');
  if (!takes_text(key) && value.find(':') != std::string::npos) return range_of(word, value, problems);
  return {value};
}

bool names_several(const settings::Key* key, const std::string& value) {
  return value.find_first_of(takes_text(key) ? ",;" : ",;:") != std::string::npos;
}

void add_axis(SweepWords& words, const std::string& word, SweepAxis axis, std::vector<Problem>& problems) {
  if (axis.values.empty()) {
    problems.push_back({fmt::format("{}: names no value", word), "write KEY=a,b,c"});
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
  if (value && *value == std::floor(*value) && *value >= 1 && *value <= 1024) return static_cast<std::int64_t>(*value);
  problems.push_back({fmt::format("ranks = {}: must be an integer from 1 to 1024", text), "ranks=1,2"});
  return std::nullopt;
}

/// What is no matter of comparing short runs; settings that the user gives stand above it.
std::vector<std::string> small_words() { return {"train.eval_iters=1", "sample.tokens=0", "checkpoint.interval=1000000000"}; }

/// Adds what is wrong with the point, unless another one has told it.
void resolve_point(SweepPoint& point, const SweepRequest& request, std::vector<Problem>& problems) {
  settings::Sources sources{.files = request.files, .overrides = small_words(), .ranks = point.ranks};
  const auto add = [&](const std::vector<std::string>& more) {
    sources.overrides.insert(sources.overrides.end(), more.begin(), more.end());
  };
  add(request.words.fixed);
  add(point.words);
  add({fmt::format("train.max_iters={}", request.steps), "train.log_interval=1", "train.eval_interval=1000000000",
       "train.init_from=scratch"});
  const auto tell = [&](const std::vector<Problem>& found) {
    for (const Problem& problem : found) {
      if (std::ranges::find(problems, problem.message, &Problem::message) == problems.end()) problems.push_back(problem);
    }
  };
  const auto resolved = [&] {
    return settings::resolve(sources, [&](const RunConfig& config) {
      std::vector<Problem> found = check_roles(config, point.ranks);
      for (Problem& problem : check_layout(config, point.ranks)) found.push_back(std::move(problem));
      return found;
    });
  };
  try {
    settings::Resolved first = resolved();
    point.config = std::move(first.config);
    point.idle = std::move(first.idle);
    point.draws_seed = resolved().config.train.seed != point.config.train.seed;
    tell(check_runnable(point.config));
    const std::optional<std::string>& data = point.config.data.dir;
    if (const std::string why = data ? io::why_no_folder(*data) : ""; !why.empty()) {
      tell({{fmt::format("data.dir = {}: {}", *data, why), fmt::format("make it: lockstep prepare TEXT --out {}", *data)}});
    }
  } catch (const UserError& error) {
    tell(error.problems());
  }
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
    if (name == "ranks" || names_several(key, value)) {
      if (key == nullptr && name != "ranks") {
        problems.push_back(settings::unknown_key(name));
        continue;
      }
      const std::size_t before = problems.size();
      std::vector<std::string> values = values_of(word, key, value, problems);
      if (problems.size() == before) add_axis(found, word, {name, std::move(values)}, problems);
    } else {
      found.fixed.push_back(word);
    }
  }
  for (const std::string_view own :
       {"train.max_iters", "train.log_interval", "train.eval_interval", "train.init_from", "log.dir", "log.name"}) {
    const auto names = [&](const std::string& word) { return word.substr(0, word.find('=')) == own; };
    if (std::ranges::any_of(words, names))
      problems.push_back({fmt::format("{} is the sweep's own", own), "leave it out; --steps and --out say how long and where"});
  }
  return found;
}

std::vector<SweepPoint> sweep_points(const SweepRequest& request) {
  std::vector<Problem> problems;
  std::size_t count = 1;
  for (const SweepAxis& axis : request.words.axes) count *= std::min(axis.values.size(), most_points + 1);
  if (count > most_points) {
    throw UserError(fmt::format("the sweep has {} combinations, more than {}", count, most_points),
                    "fewer values, or one setting at a time");
  }
  std::vector<SweepPoint> points(count);
  for (std::size_t i = 0; i < count; ++i) {
    SweepPoint& point = points[i];
    point.ranks = request.ranks;
    std::size_t each = count, rest = i;
    for (const SweepAxis& axis : request.words.axes) {
      each /= axis.values.size();
      const std::string& value = axis.values[rest / each];
      rest %= each;
      const std::string word = axis.key + "=" + value;
      point.label += (point.label.empty() ? "" : " ") + word;
      if (axis.key != "ranks") {
        point.words.push_back(word);
      } else if (const auto ranks = ranks_from(value, problems)) {
        point.ranks = *ranks;
      }
    }
  }
  if (problems.empty()) {
    for (SweepPoint& point : points) resolve_point(point, request, problems);
  }
  if (!problems.empty()) throw UserError(std::move(problems));
  return points;
}

}  // namespace lockstep::app
