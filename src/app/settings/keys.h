#pragma once

// The one table of a run's settings: name, type, what is allowed, unit and meaning. It also says how to read and write the value
// in a RunConfig. Values travel as Json scalars (null, boolean, integer, number, text).

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/settings/run_config.h"
#include "base/values/value.h"

namespace lockstep::settings {

using Type = ValueType;
using Rule = ValueRule;

/// What a resume may do with a setting: it is the same run that goes on.
enum class OnResume {
  must_equal,        ///< another value is refused
  may_change,        ///< nothing that is learned depends on it
  changes_learning,  ///< allowed, with a warning that checkpoints keep
};

struct Key {
  std::string_view name;  // "train.max_iters"
  Type type;
  bool nullable;
  Rule rule;
  OnResume on_resume;
  std::string_view unit;  // "" when it has none
  std::string_view meaning;
  bool in_wordplay;  // the WordPlay run printed it
  std::function<Json(const app::RunConfig&)> get;
  std::function<void(app::RunConfig&, const Json&)> set;  // the value has been checked

  std::string_view group() const { return name.substr(0, name.find('.')); }
  std::string_view option() const { return name.substr(name.find('.') + 1); }
};

struct Group {
  std::string_view name, meaning;
};

/// All groups and keys, in the order of the JSON dump.
std::span<const Group> groups();
std::span<const Key> keys();
/// The key of a name with its group, or of an own name that no other key has ("max_iters"). Null when there is none.
const Key* find_key(std::string_view name);
/// "an integer of at least 1", "one of gelu, relu", "true or false"; ", or null" where null is allowed.
std::string rule_text(const Key& key);
/// A value as it is typed on the command line.
std::string shown(const Json& value);

/// The text of a command line as a value of the key's type; the text itself where it is not one.
Json value_from_text(const Key& key, std::string_view text);
/// Checks the value and stores it; returns what is wrong with it, if anything, and leaves the config alone then. `typed`: how it
/// was written, where that is known.
std::optional<Problem> assign(app::RunConfig& config, const Key& key, const Json& value, std::string_view typed = {});
/// The key that `name` (with its group or without) was perhaps meant to be; empty when none is near.
std::string nearest_key(std::string_view name);
/// The problem of a name that is no key, with the nearest one.
Problem unknown_key(std::string_view name);

}  // namespace lockstep::settings
