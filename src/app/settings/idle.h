#pragma once

// Which settings change nothing in a run with the others, and why: one table of conditions over the keys' names.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "app/settings/keys.h"

namespace lockstep::settings {

/// What decides whether a setting does anything.
struct IdleFacts {
  const app::RunConfig& config;
  std::optional<std::int64_t> ranks = {};  ///< that the run has, servers included; nothing: not known, as if there were several
};

struct IdleRule {
  std::vector<std::string_view> keys;
  bool (*holds)(const IdleFacts& facts);
  std::string_view why;
};
std::span<const IdleRule> idle_rules();

/// Why the key's value changes nothing here; empty where it does something.
std::string_view idle_reason(const Key& key, const IdleFacts& facts);

}  // namespace lockstep::settings
