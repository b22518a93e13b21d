#include "app/sweep/sweep_definition.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "app/cli/build_info.h"
#include "app/settings/keys.h"
#include "app/settings/pipeline_settings.h"
#include "app/train/train_rank.h"
#include "data/fingerprint.h"
#include "data/token_description.h"
#include "io/sha256.h"

namespace lockstep::app {
namespace {

constexpr const char* kTexts = "texts";

/// A member of one, or null.
const Json& member(const Json& object, std::string_view name) {
  static const Json none;
  const Json* found = object.is_object() ? object.find(name) : nullptr;
  return found != nullptr ? *found : none;
}

std::string shown(const Json& value) { return value.is_null() ? "none" : settings::shown(value).substr(0, 40); }

std::set<std::string> names_of(const Json& one, const Json& other) {
  std::set<std::string> names;
  for (const Json* side : {&one, &other}) {
    if (!side->is_object()) continue;
    for (const auto& [name, value] : side->object()) names.insert(name);
  }
  return names;
}

/// The first value of each setting that differs in some point.
std::vector<std::string> point_differences(const Json::Array& then, const Json::Array& now) {
  if (then.size() != now.size()) return {fmt::format("{} combinations then, {} now", then.size(), now.size())};
  std::vector<std::string> found;
  std::set<std::string> known;
  const auto compare = [&](const std::string& name, const Json& before, const Json& after) {
    if (before.dump() != after.dump() && known.insert(name).second)
      found.push_back(fmt::format("{} = {} then, {} now", name, shown(before), shown(after)));
  };
  for (std::size_t i = 0; i < then.size(); ++i) {
    compare("ranks", member(then[i], "ranks"), member(now[i], "ranks"));
    const Json &before = member(then[i], "settings"), &after = member(now[i], "settings");
    for (const settings::Key& key : settings::keys()) {
      if (key.name == "train.max_iters") continue;  // follows from steps and tokens
      const auto value = [&](const Json& all) -> const Json& { return member(member(all, key.group()), key.option()); };
      compare(std::string(key.name), value(before), value(after));
    }
  }
  constexpr std::size_t most = 5;
  if (found.size() > most) {
    const std::size_t more = found.size() - most;
    found.resize(most);
    found.push_back(fmt::format("{} more settings", more));
  }
  return found;
}

}  // namespace

Json definition_of(std::int64_t steps, const std::vector<SweepPoint>& points) {
  Json::Array all;
  Json tables;
  for (const SweepPoint& point : points) {
    all.emplace_back(Json::Object{{"ranks", point.ranks}, {"settings", to_json(point.config)}});
    if (const auto file = schedule_file(point.config.parallel.schedule)) tables.set(file->string(), io::sha256_of_file(*file));
  }
  Json definition(Json::Object{{"version", std::string(kVersion)}, {"steps", steps}, {"points", Json(std::move(all))}});
  const auto drawn = std::ranges::find(points, true, &SweepPoint::draws_seed);
  if (drawn != points.end()) definition.set("drawn_seed", seed_of(drawn->config));
  if (tables.is_object()) definition.set("tables", std::move(tables));
  return definition;
}

Json texts_of(const std::vector<SweepPoint>& points, Log& log) {
  Json texts;
  for (const SweepPoint& point : points) {
    const std::string folder = data_folder(point.config);
    if (!member(texts, folder).is_null()) continue;
    prepare_data(point.config, log);
    Json text = data::fingerprint(folder, log);
    if (const auto description = data::read_description(folder)) text.set("vocabulary", description->format.vocabulary);
    texts.set(folder, std::move(text));
  }
  return texts;
}

std::vector<std::string> differences(const Json& then, const Json& now) {
  std::vector<std::string> found = point_differences(then.at("points").array(), now.at("points").array());
  for (const auto& [name, words] : {std::pair("version", "version"), {"steps", "steps"}, {"drawn_seed", "drawn seed"}}) {
    const Json &before = member(then, name), &after = member(now, name);
    if (before.dump() != after.dump()) found.push_back(fmt::format("{} {} then, {} now", words, shown(before), shown(after)));
  }
  for (const auto& [kind, words] : {std::pair("tables", "table"), std::pair(kTexts, "text")}) {
    if (member(now, kind).is_null()) continue;
    for (const std::string& name : names_of(member(then, kind), member(now, kind))) {
      const Json &before = member(member(then, kind), name), &after = member(member(now, kind), name);
      if (before.is_null()) {
        found.push_back(fmt::format("which {} {} held then was not kept", words, name));
      } else if (before.dump() != after.dump()) {
        found.push_back(fmt::format("{} holds another {} now", name, words));
      }
    }
  }
  return found;
}

}  // namespace lockstep::app
