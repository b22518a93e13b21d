#include "app/cli/number_values.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "base/number_text.h"

namespace lockstep::app {

bool read_number(const std::string& text, double& target) {
  const std::optional<double> value = number_from<double>(text);
  if (value && std::isfinite(*value)) target = *value;
  return value && std::isfinite(*value);
}

bool read_number(const std::string& text, std::int64_t& target, std::int64_t most) {
  const std::optional<std::int64_t> value = number_from<std::int64_t>(text);
  const bool held = value && *value <= most && *value >= -most;
  if (held) target = *value;
  return held;
}

std::string integer_bounds(const std::string& text, std::int64_t most) {
  const bool digits = text.size() > 1 && text.find_first_not_of("0123456789", text[0] == '-' ? 1 : 0) == std::string::npos;
  return !digits ? "" : text[0] == '-' ? fmt::format(" of at least -{}", most) : fmt::format(" of at most {}", most);
}

std::string number_bounds(const std::string& text) {
  const bool beyond = text.find_first_of("0123456789") == 0 && text.find_first_not_of("0123456789.eE+-") == std::string::npos;
  return beyond || number_from<double>(text) ? ", or is beyond what a number may be" : "";
}

}  // namespace lockstep::app
