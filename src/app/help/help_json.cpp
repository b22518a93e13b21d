#include "app/cli/build_info.h"
#include "app/help/help.h"
#include "app/settings/keys.h"
#include "app/settings/presets.h"

namespace lockstep::app {
namespace {

Json::Array texts(const std::vector<std::string>& all) { return {all.begin(), all.end()}; }

std::string_view name_of(WordType type) {
  switch (type) {
    case WordType::flag:
      return "flag";
    case WordType::text:
      return "text";
    case WordType::integer:
      return "integer";
    case WordType::number:
      return "number";
    case WordType::choice:
      return "choice";
  }
  return {};
}

std::string_view name_of(ValueType type) {
  switch (type) {
    case ValueType::boolean:
      return "boolean";
    case ValueType::integer:
      return "integer";
    case ValueType::number:
      return "number";
    case ValueType::text:
      return "text";
  }
  return {};
}

Json words(const std::vector<WordSheet>& all) {
  Json::Array list;
  for (const WordSheet& word : all) {
    Json one(Json::Object{{"name", word.name}, {"type", name_of(word.type)}, {"meaning", word.meaning}});
    if (!word.value.empty()) one.set("value", word.value);
    if (!word.allowed.empty()) one.set("allowed", texts(word.allowed));
    if (!word.standard.empty()) one.set("default", word.standard);
    if (!word.names.empty()) one.set("options", texts(word.names));
    one.set("required", word.required);
    one.set("repeats", word.repeats);
    list.push_back(std::move(one));
  }
  return list;
}

Json json_of(const CommandSheet& sheet) {
  Json one(Json::Object{{"name", sheet.name}, {"summary", sheet.summary}, {"about", sheet.about}});
  one.set("arguments", words(sheet.arguments));
  one.set("options", words(sheet.options));
  one.set("takes_settings", sheet.takes_settings);
  one.set("examples", texts(sheet.examples));
  Json::Array commands;
  for (const CommandSheet& command : sheet.commands) commands.push_back(json_of(command));
  one.set("commands", std::move(commands));
  return one;
}

Json json_of(const settings::Key& key) {
  Json one(Json::Object{{"name", key.name}, {"type", name_of(key.type)}, {"meaning", key.meaning}, {"unit", key.unit}});
  one.set("default", key.get(RunConfig()));
  one.set("nullable", key.nullable);
  one.set("allowed", Json::Array(key.rule.words.begin(), key.rule.words.end()));
  one.set("value", settings::rule_text(key));
  return one;
}

}  // namespace

Json help_json(const CommandSheet& program) {
  Json all = json_of(program);
  all.set("name", "lockstep");
  all.set("version", kVersion);
  all.set("common_options", words(common_options()));
  Json::Array groups, keys, bundles, statuses;
  for (const settings::Group& group : settings::groups())
    groups.emplace_back(Json::Object{{"name", group.name}, {"meaning", group.meaning}});
  for (const settings::Key& key : settings::keys()) keys.push_back(json_of(key));
  for (const settings::Preset& preset : settings::presets())
    bundles.emplace_back(
        Json::Object{{"group", preset.group}, {"option", preset.option}, {"settings", texts(preset.assignments)}});
  for (const ExitStatus& status : exit_statuses())
    statuses.emplace_back(Json::Object{{"code", status.code}, {"meaning", status.meaning}});
  all.set("groups", std::move(groups));
  all.set("settings", std::move(keys));
  all.set("bundles", std::move(bundles));
  all.set("exit_statuses", std::move(statuses));
  return all;
}

}  // namespace lockstep::app
