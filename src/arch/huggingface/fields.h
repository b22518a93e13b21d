#pragma once

// Members of a JSON object that another program wrote: read by name, with all that is wrong collected. What was asked for, what
// has one value alone and what changes nothing are known; any other member is refused by its name.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace lockstep::arch::huggingface {

/// A member of which one value alone is computed here; null and absence are that value.
struct OnlyValue {
  std::string_view key;
  std::string_view value;  ///< as JSON; numbers without a fraction of 0
  std::string_view other;  ///< what other values ask for
};

class Fields {
 public:
  /// `what` names the file, `prefix` what leads to the object in it. Both outlive this, and so does `json`, an object.
  Fields(const Json& json, std::string_view what, std::string prefix = "");

  /// A whole number of at least 1 and at most `most`; without one, `otherwise`, or else the field is missing.
  std::int64_t size(std::string_view key, std::int64_t most, std::optional<std::int64_t> otherwise = std::nullopt);
  /// A number above 0 and at most 1e30.
  double positive(std::string_view key, std::optional<double> otherwise = std::nullopt);
  bool flag(std::string_view key, bool otherwise);
  std::string text(std::string_view key, std::string otherwise);
  /// Whole numbers: one, or a list of them.
  std::vector<std::int64_t> numbers(std::string_view key);
  /// A list of numbers above 0 and at most 1e30.
  std::vector<double> positives(std::string_view key);
  /// Texts: one, or a list of them.
  std::vector<std::string> texts(std::string_view key);
  /// The member; null when it is missing or null.
  const Json* present(std::string_view key);
  /// The first name of one thing that is there, or else the first of all. Those that are there must agree.
  std::string_view one_of(std::initializer_list<std::string_view> keys);

  void refuse(std::string problem, std::string remedy = "this version does not compute it");
  void wrong(std::string_view key, const Json& value, std::string_view rule);
  /// Refuses another value than the one that is computed, row by row.
  void demand(std::span<const OnlyValue> rows);
  /// Accepts members that change nothing of what is computed.
  void pass(std::span<const std::string_view> keys);
  /// Refuses every member that nothing above has named, unless it is null or false: the first ones by name.
  void refuse_unknown(std::string_view remedy);
  /// Adds the problems of an object within this one.
  void take(Fields& inner);

  std::vector<Problem> problems;

 private:
  bool is_known(std::string_view key) const;
  void missing(std::string_view key);

  const Json& json_;
  std::string_view what_;
  std::string prefix_;
  std::vector<std::string_view> known_;
};

/// A value as messages show it, cut where it is long; 1.0 is 1.
std::string shown(const Json& value);
/// Whether a member asks for something: it is there, neither null nor the row's value.
bool differs(const Json* value, const OnlyValue& row);

}  // namespace lockstep::arch::huggingface
