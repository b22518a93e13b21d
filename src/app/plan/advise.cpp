// `lockstep plan advise`: the table of nine cases.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "app/folder/answer_line.h"
#include "app/plan/questions.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/units.h"
#include "planner/formulas/advice.h"

namespace lockstep::app {
namespace {

std::optional<double> amount_from(const std::string& text) {
  if (const auto value = number_from<double>(text); value && *value >= 0 && *value <= 1e18) return value;
  if (const auto bytes = bytes_from(text)) return static_cast<double>(*bytes);
  return std::nullopt;
}

class WordReader {
 public:
  explicit WordReader(const std::vector<std::string>& words) : words_(words) {}

  planner::AdviceQuestion read() {
    planner::AdviceQuestion question;
    question.parameters = amount("params", "a number above 0", "params=7.5e9");
    question.largest_layer = amount("largest_layer", "bytes", "largest_layer=1GiB");
    question.activations = amount("activations", "bytes", "activations=10GiB", true);
    question.device_memory = amount("device_memory", "bytes", "device_memory=80GB");
    question.devices = count("devices", "devices=8");
    question.nodes = count("nodes", "nodes=1");
    question.fast_inside = speed("intra");
    question.fast_between = speed("inter");
    for (const std::string& word : words_) {
      const std::string name = word.substr(0, word.find('='));
      if (std::ranges::find(known_, name) != known_.end()) continue;
      const std::string near = nearest_name(name, known_);
      problems_.push_back({fmt::format("{}: the advice does not depend on it", word),
                           near.empty() ? "see lockstep plan advise --help" : fmt::format("did you mean {}=?", near)});
    }
    if (!problems_.empty()) throw UserError(std::move(problems_));
    return question;
  }

 private:
  /// Nothing: there is none of the name.
  std::optional<std::string> value_of(const std::string& name) {
    known_.push_back(name);
    std::optional<std::string> value;
    for (const std::string& word : words_) {
      if (!word.starts_with(name + "=")) continue;
      if (value) problems_.push_back({fmt::format("{}={} and {}: two values of one amount", name, *value, word), "one of them"});
      value = word.substr(name.size() + 1);
    }
    return value;
  }
  double amount(const std::string& name, std::string_view rule, const std::string& example, bool or_none = false) {
    const std::optional<std::string> text = value_of(name);
    const std::optional<double> value = text ? amount_from(*text) : std::nullopt;
    if (value && (*value > 0 || or_none)) return *value;
    complain(name, text, fmt::format("must be {}{}", rule, or_none ? ", or 0" : ""), example);
    return 1;
  }
  std::int64_t count(const std::string& name, const std::string& example) {
    const std::optional<std::string> text = value_of(name);
    const std::optional<double> value = text ? amount_from(*text) : std::nullopt;
    if (value && *value >= 1 && *value <= 1e7 && std::floor(*value) == *value) return static_cast<std::int64_t>(*value);
    complain(name, text, "must be a whole number from 1 on", example);
    return 1;
  }
  bool speed(const std::string& name) {
    const std::optional<std::string> text = value_of(name);
    if (text && *text != "fast" && *text != "slow") complain(name, text, "must be fast or slow", name + "=fast");
    return !text || *text == "fast";
  }
  void complain(const std::string& name, const std::optional<std::string>& text, std::string_view rule,
                const std::string& example) {
    problems_.push_back(
        {text ? fmt::format("{}={}: {}", name, *text, rule) : fmt::format("{}= is missing: {}", name, rule), example});
  }

  const std::vector<std::string>& words_;
  std::vector<std::string> known_;
  std::vector<Problem> problems_;
};

}  // namespace

int plan_advise(const Arguments& arguments) {
  std::vector<std::string> words;
  AnswerLine line("plan advise",
                  "Which kinds of parallelism a model and a machine call for, by the table that people decide by before they "
                  "measure. A model fits where 18 bytes a parameter and the activations do, a layer where twice its bytes do.");
  line.overrides(words,
                 "params=N, largest_layer=BYTES, activations=BYTES (of a device), device_memory=BYTES, devices=N (of a node), "
                 "nodes=N; intra=fast|slow, inter=fast|slow: connections inside a node and between nodes (fast)",
                 {"params=", "largest_layer=", "activations=", "device_memory=", "devices=", "nodes=", "intra=", "inter="});
  line.note(
      "example:\n  lockstep plan advise params=7.5e9 largest_layer=400MB activations=10GB device_memory=80GB devices=8 nodes=1 "
      "intra=fast inter=slow");
  if (!line.read(arguments)) return 0;
  planner::AdviceQuestion question;
  line.collect([&] { question = WordReader(words).read(); });
  line.check();
  const planner::Advice advice = planner::advise(question);
  Answer answer;
  answer.say(fmt::format("{}, {}:\n  {}\nbecause {}\nsettings to begin with: {}\n", advice.setting, advice.condition,
                         advice.answer, advice.reason, advice.settings));
  for (const std::string& rule : advice.besides) answer.say(fmt::format("also: {}\n", rule));
  answer.facts({{"setting", advice.setting},
                {"condition", advice.condition},
                {"answer", advice.answer},
                {"reason", advice.reason},
                {"settings", advice.settings},
                {"besides", Json::Array(advice.besides.begin(), advice.besides.end())}});
  line.print(answer);
  return 0;
}

}  // namespace lockstep::app
