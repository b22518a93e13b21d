#include <fmt/format.h>
#include <gtest/gtest.h>
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>

#include "app/help/help.h"
#include "app/settings/config_file.h"
#include "app/settings/keys.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

Json json_of(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    Json object{Json::Object{}};
    for (const auto& [name, value] : *table) object.set(std::string(name.str()), json_of(value));
    return object;
  }
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_string()) return value->get();
  return {};
}

bool is_of_type(const Json& value, const std::string& type) {
  return (type == "object" && value.is_object()) || (type == "boolean" && value.is_bool()) ||
         (type == "integer" && value.is_int()) || (type == "number" && value.is_number()) ||
         (type == "string" && value.is_string());
}

/// Whether `value` keeps the words of JSON Schema that ours uses.
bool keeps(const Json& value, const Json& schema) {
  const auto bound = [&](const char* word, auto holds) {
    const Json* limit = schema.find(word);
    return limit == nullptr || !value.is_number() || holds(value.number(), limit->number());
  };
  if (const Json* type = schema.find("type"); type != nullptr && !is_of_type(value, type->string())) return false;
  if (const Json* one = schema.find("const"); one != nullptr && one->dump() != value.dump()) return false;
  if (const Json* words = schema.find("enum")) {
    if (std::ranges::none_of(words->array(), [&](const Json& word) { return word.dump() == value.dump(); })) return false;
  }
  if (const Json* ways = schema.find("anyOf")) {
    if (std::ranges::none_of(ways->array(), [&](const Json& way) { return keeps(value, way); })) return false;
  }
  if (schema.find("minLength") != nullptr && value.is_string() && value.string().empty()) return false;
  if (const Json* properties = schema.find("properties"); properties != nullptr && value.is_object()) {
    for (const auto& [name, member] : value.object()) {
      const Json* own = properties->find(name);
      if (own == nullptr ? !schema.at("additionalProperties").boolean() : !keeps(member, *own)) return false;
    }
  }
  return bound("minimum", std::greater_equal()) && bound("exclusiveMinimum", std::greater()) &&
         bound("maximum", std::less_equal()) && bound("exclusiveMaximum", std::less());
}

bool keeps(std::string_view recipe) { return keeps(json_of(toml::parse(recipe)), recipe_schema()); }

TEST(Schema, EveryRecipeKeepsIt) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("configs")) {
    EXPECT_TRUE(keeps(io::read_file(entry.path()))) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 8);
}

TEST(Schema, RefusesWhatARecipeMayNotHold) {
  EXPECT_TRUE(keeps("[train]\nmax_iters = 5\nseed = \"random\"\nmax_minutes = \"null\"\n[optimizer]\nlearning_rate = 1\n"));
  for (const char* recipe :
       {"[train]\nmax_itres = 5\n", "[trian]\nmax_iters = 5\n", "max_iters = 5\n", "[train]\nmax_iters = 0\n",
        "[train]\nmax_iters = \"5\"\n", "[train]\ndtype = \"fp64\"\n", "[model]\ndropout = 1.0\n", "[model]\nbias = 1\n",
        "[train]\nmax_minutes = 0\n", "[train]\ninit_from = \"\"\n"})
    EXPECT_FALSE(keeps(recipe)) << recipe;
}

// The reader of recipes and the schema come from one table: what one takes, the other does.
TEST(Schema, AgreesWithTheReader) {
  for (const settings::Key& key : settings::keys()) {
    for (const char* value :
         {"true", "0", "1", "-1", "0.5", "1e16", "2000000000000000", "\"null\"", "\"auto\"", "\"\"", "\"fp32\""}) {
      const std::string recipe = fmt::format("[{}]\n{} = {}\n", key.group(), key.option(), value);
      RunConfig config;
      const bool read = read_config_text(recipe, "recipe", config).empty();
      const bool formed = key.rule.readable != nullptr || key.rule.named != nullptr;  // the text's form is not in the schema
      if (read || !formed) {
        EXPECT_EQ(keeps(recipe), read) << recipe;
      }
    }
  }
}

TEST(Schema, DescribesEverySetting) {
  const Json schema = recipe_schema();
  EXPECT_EQ(schema.at("$schema").string(), "http://json-schema.org/draft-07/schema#");
  for (const settings::Key& key : settings::keys()) {
    const Json& one = schema.at("properties").at(key.group()).at("properties").at(key.option());
    EXPECT_NE(one.at("description").string().find(key.meaning), std::string::npos) << key.name;
    EXPECT_NE(one.find("default"), nullptr) << key.name;
  }
}

}  // namespace
}  // namespace lockstep::app
