#include "base/values/value.h"

#include <algorithm>
#include <cmath>

namespace lockstep {

bool has_type(const Json& value, ValueType type) {
  switch (type) {
    case ValueType::boolean:
      return value.is_bool();
    case ValueType::integer:
      return value.is_int();
    case ValueType::number:
      return value.is_number();
    case ValueType::text:
      return value.is_string();
  }
  return false;
}

bool obeys(const Json& value, const ValueRule& rule) {
  if (!rule.words.empty()) return std::find(rule.words.begin(), rule.words.end(), value.string()) != rule.words.end();
  if (value.is_string()) return !value.string().empty();
  if (!value.is_number()) return true;
  const double x = value.number();
  if (!std::isfinite(x)) return false;
  if (!rule.bounded) return true;
  return (rule.open_low ? x > rule.low : x >= rule.low) && (rule.open_high ? x < rule.high : x <= rule.high);
}

}  // namespace lockstep
