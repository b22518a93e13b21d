#include "app/settings/config_help.h"

#include <fmt/format.h>

#include "app/settings/keys.h"
#include "app/settings/presets.h"
#include "base/text/columns.h"

namespace lockstep::settings {
namespace {

constexpr int kColumns = 120;

constexpr std::string_view kGrammar =
    "Settings are written group.key=value, or key=value where no other group has the key; group=option sets a bundle of them.\n"
    "Order: defaults, --config FILE, bundles, single settings; a later one wins. Values: null, true, false, numbers, text.\n"
    "In a file (TOML): [group], key = value, \"null\" for null.\n";

std::string default_of(const Key& key) { return shown(key.get(app::RunConfig())); }

// The unit and, where it says more than the type, the rule.
std::string bracket(const Key& key) {
  std::string inner(key.unit);
  if (key.rule.words.size() > 1) inner = fmt::format("{}", fmt::join(key.rule.words, "|"));
  return inner.empty() ? "" : fmt::format(" [{}]", inner);
}

std::string group_help(const Group& group) {
  std::string text = fmt::format("{}: {}\n", group.name, group.meaning);
  const std::string options = options_of(group.name);
  std::vector<HelpRow> rows;
  if (!options.empty()) rows.push_back({fmt::format("{}=OPTION", group.name), "bundles: " + options});
  for (const Key& key : keys()) {
    if (key.group() != group.name) continue;
    rows.push_back({fmt::format("{}={}", key.name, default_of(key)), std::string(key.meaning) + bracket(key)});
  }
  return text + two_columns(rows, kColumns);
}

std::string_view text_of(OnResume mark) {
  switch (mark) {
    case OnResume::must_equal:
      return "must be equal";
    case OnResume::may_change:
      return "may change";
    case OnResume::changes_learning:
      return "may change; as it changes what is learned, with a warning";
  }
  return {};
}

std::string key_help(const Key& key) {
  std::vector<HelpRow> rows = {{"meaning", std::string(key.meaning)}, {"default", default_of(key)}, {"value", rule_text(key)}};
  if (!key.unit.empty()) rows.push_back({"unit", std::string(key.unit)});
  rows.push_back({"resume", std::string(text_of(key.on_resume))});
  return fmt::format("{}\n{}", key.name, two_columns(rows, kColumns));
}

std::string whole_help() {
  std::string text(kGrammar);
  for (const Group& group : groups()) text += '\n' + group_help(group);
  return text + fmt::format(
                    "\nexperiment: settings of several groups\n  bundles: +experiment=OPTION, of {}\n\n"
                    "One group: lockstep help config train. One setting: lockstep help config train.max_iters.\n",
                    options_of("experiment"));
}

}  // namespace

std::string config_help(std::string_view topic) {
  if (topic.empty()) return whole_help();
  std::vector<std::string> names;
  for (const Group& group : groups()) {
    if (group.name == topic) return group_help(group);
    names.emplace_back(group.name);
  }
  if (const Key* key = find_key(topic)) return key_help(*key);
  if (topic.find('.') != std::string_view::npos) {
    const Problem problem = unknown_key(topic);
    throw UserError(problem.message, problem.remedy);
  }
  const std::string near = nearest_name(topic, names);
  throw UserError(fmt::format("unknown group {}", topic),
                  near.empty() ? "lockstep help config lists them" : fmt::format("did you mean {}?", near));
}

}  // namespace lockstep::settings
