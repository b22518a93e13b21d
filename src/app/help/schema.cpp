// `lockstep schema`: what a recipe may hold, for editors.

#include <fmt/format.h>

#include <cstdio>

#include "app/cli/command_line.h"
#include "app/help/help.h"
#include "app/settings/keys.h"

namespace lockstep::app {
namespace {

constexpr std::string_view no_value = "null";  // TOML has none: the text stands for it

/// A bound as it is typed: an integer without a fraction.
Json bound(const settings::Key& key, double value) {
  return key.type == settings::Type::integer ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

Json numbers(const settings::Key& key) {
  Json schema(Json::Object{{"type", key.type == settings::Type::integer ? "integer" : "number"}});
  if (!key.rule.bounded) return schema;
  schema.set(key.rule.open_low ? "exclusiveMinimum" : "minimum", bound(key, key.rule.low));
  schema.set(key.rule.open_high ? "exclusiveMaximum" : "maximum", bound(key, key.rule.high));
  return schema;
}

Json any_of(Json::Array schemas) { return schemas.size() == 1 ? schemas[0] : Json(Json::Object{{"anyOf", std::move(schemas)}}); }

Json text_schema(const settings::Key& key) {
  if (key.rule.words.empty()) return Json(Json::Object{{"type", "string"}, {"minLength", 1}});
  Json::Array words(key.rule.words.begin(), key.rule.words.end());
  if (key.nullable) words.emplace_back(no_value);
  return Json(Json::Object{{"type", "string"}, {"enum", std::move(words)}});
}

/// What the reader of recipes takes for the key.
Json value_schema(const settings::Key& key) {
  if (key.type == settings::Type::text) return text_schema(key);
  Json::Array ways = {key.type == settings::Type::boolean ? Json(Json::Object{{"type", "boolean"}}) : numbers(key)};
  if (key.rule.named != nullptr) {
    ways.push_back(Json::Object{{"type", "string"}, {"description", key.rule.names}});
  } else if (key.nullable) {
    ways.push_back(Json::Object{{"const", no_value}});
  }
  return any_of(std::move(ways));
}

Json key_schema(const settings::Key& key) {
  Json schema = value_schema(key);
  const std::string unit = key.unit.empty() ? "" : fmt::format(" [{}]", key.unit);
  schema.set("description", fmt::format("{}{}. It is {}.", key.meaning, unit, settings::rule_text(key)));
  const Json standard = key.get(RunConfig());
  schema.set("default", standard.is_null() ? Json(no_value) : standard);
  return schema;
}

int schema(const Arguments& arguments) {
  CommandLine line(
      "schema",
      "Print a JSON Schema (draft-07) of recipes. Editors complete and check TOML files by it: taplo and Even Better "
      "TOML read its place from a recipe's first line.");
  line.note("examples:\n  lockstep schema > lockstep.json   # a recipe beside it begins with: #:schema ./lockstep.json");
  if (!line.parse(arguments)) return 0;
  std::fputs((recipe_schema().dump(2) + "\n").c_str(), stdout);
  return 0;
}

}  // namespace

Json recipe_schema() {
  Json groups;
  for (const settings::Group& group : settings::groups()) {
    Json keys{Json::Object{}};
    for (const settings::Key& key : settings::keys()) {
      if (key.group() == group.name) keys.set(std::string(key.option()), key_schema(key));
    }
    groups.set(std::string(group.name), Json::Object{{"type", "object"},
                                                     {"description", group.meaning},
                                                     {"additionalProperties", false},
                                                     {"properties", std::move(keys)}});
  }
  return Json::Object{{"$schema", "http://json-schema.org/draft-07/schema#"},
                      {"title", "A recipe of lockstep"},
                      {"description", "Settings of a run, for lockstep train --config"},
                      {"type", "object"},
                      {"additionalProperties", false},
                      {"properties", std::move(groups)}};
}

Command schema_command() { return {"schema", "a JSON Schema of recipes, by which editors check them", schema}; }

}  // namespace lockstep::app
