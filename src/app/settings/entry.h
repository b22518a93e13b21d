#pragma once

// For the files that list settings: an entry of the table from one member of one group of RunConfig.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/settings/choices.h"
#include "app/settings/keys.h"
#include "layout/plan_fields.h"

namespace lockstep::settings {

/// The keys of other files: how ranks share the work, what each keeps, and what the model is.
std::vector<Key> parallel_keys();
std::vector<Key> memory_keys();
std::vector<Key> model_keys();
std::vector<Key> adapter_keys();

inline constexpr OnResume fixed = OnResume::must_equal, loose = OnResume::may_change, learns = OnResume::changes_learning;
/// The entry of a plan's field.
Key plan_key(layout::PlanField field, bool in_wordplay = false);

/// The entry of one member of one group.
template <auto kGroup, auto kMember>
Key key(std::string_view name, Rule rule, OnResume mark, std::string_view unit, std::string_view meaning,
        bool in_wordplay = false) {
  Value<app::RunConfig> value =
      value_of<app::RunConfig>(std::move(rule), [](auto& config) -> auto& { return config.*kGroup.*kMember; });
  return {name, value.type, value.nullable, std::move(value.rule), mark, unit, meaning, in_wordplay, value.get, value.set};
}

}  // namespace lockstep::settings
