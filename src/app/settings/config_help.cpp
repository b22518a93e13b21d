#include "app/settings/config_help.h"

#include <fmt/format.h>

#include "app/settings/keys.h"
#include "app/settings/presets.h"
#include "base/text/columns.h"

namespace lockstep::settings {
namespace {

std::string default_of(const Key& key) { return shown(key.get(app::RunConfig())); }

// The unit and, where it says more than the type, the rule.
std::string bracket(const Key& key) {
  std::string inner(key.unit);
  if (key.rule.words.size() > 1) inner = fmt::format("{}", fmt::join(key.rule.words, "|"));
  return inner.empty() ? "" : fmt::format(" [{}]", inner);
}

std::string group_help(const Group& group, int columns, const Paint& paint) {
  const std::string head = folded(fmt::format("{}: {}", group.name, group.meaning), columns, 2);
  const std::size_t colon = group.name.size() + 1;
  std::string text = paint(Ink::heading, head.substr(0, colon)) + head.substr(colon) + '\n';
  const std::string options = options_of(group.name);
  std::vector<HelpRow> rows;
  if (!options.empty()) rows.push_back({fmt::format("{}=OPTION", group.name), "bundles: " + options});
  for (const Key& key : keys()) {
    if (key.group() != group.name) continue;
    rows.push_back({fmt::format("{}={}", key.name, default_of(key)), std::string(key.meaning) + bracket(key)});
  }
  return text + two_columns(rows, columns);
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

std::string key_help(const Key& key, int columns, const Paint& paint) {
  std::vector<HelpRow> rows = {{"meaning", std::string(key.meaning)}, {"default", default_of(key)}, {"value", rule_text(key)}};
  if (!key.unit.empty()) rows.push_back({"unit", std::string(key.unit)});
  rows.push_back({"resume", std::string(text_of(key.on_resume))});
  return fmt::format("{}\n{}", paint(Ink::heading, key.name), two_columns(rows, columns));
}

std::string whole_help(int columns, const Paint& paint) {
  std::string text = folded(settings_grammar, columns);
  for (const Group& group : groups()) text += '\n' + group_help(group, columns, paint);
  return text + fmt::format(
                    "\n{} settings of several groups\n{}\n{}\n", paint(Ink::heading, "experiment:"),
                    two_columns({{"+experiment=OPTION", "bundles: " + options_of("experiment")}}, columns),
                    folded("One group: lockstep help config train. One setting: lockstep help config train.max_iters.", columns));
}

}  // namespace

std::string config_help(std::string_view topic, int columns, const Paint& paint) {
  if (topic.empty()) return whole_help(columns, paint);
  std::vector<std::string> names;
  for (const Group& group : groups()) {
    if (group.name == topic) return group_help(group, columns, paint);
    names.emplace_back(group.name);
  }
  if (const Key* key = find_key(topic)) return key_help(*key, columns, paint);
  if (topic.find('.') != std::string_view::npos) {
    const Problem problem = unknown_key(topic);
    throw UserError(problem.message, problem.remedy);
  }
  const std::string near = nearest_name(topic, names);
  throw UserError(fmt::format("unknown group {}", topic),
                  near.empty() ? unknown_key(topic).remedy : fmt::format("did you mean {}?", near));
}

}  // namespace lockstep::settings
