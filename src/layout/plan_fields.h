#pragma once

// The fields of a plan that a user chooses: the one table of them, and how a user is told of them. What is wrong with a plan
// depends on its fields. How a field is spelt depends on who reads it: "parallel.tp = 4" in settings, "tp=4" in the words of a
// layout.

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/values/value.h"
#include "layout/plan_wish.h"

namespace lockstep::layout {

enum class PlanField : std::uint8_t {
  dp,
  tp,
  cp,
  context,
  sequence,
  allow_tp_across_hosts,
  pp,
  schedule,
  virtual_stages,
  split,
  reduce,
  bucket_bytes,
  overlap,
  ranks_per_host,
  recompute,
  zero,
  zero_group,
  prefetch,
  reshard,
  offload_optimizer,
  offload_params,
  offload_activations,
  tiles,
  max_tile_bytes,
  gas,
  canonical
};

/// What another value of a field does to what a run computes.
enum class FieldBits : std::uint8_t {
  same,        ///< nothing: the bits are the same
  other,       ///< sums are made in another order
  another_run  ///< every sum is another one: a run keeps the field's value
};

struct FieldRow {
  PlanField field;
  std::string_view setting;                 ///< "parallel.tp"
  std::string_view unit;                    ///< of the setting's number; "" when it has none
  std::string_view meaning;                 ///< of the setting
  Value<PlanWish> value;                    ///< type and rule; reads and prints it
  int place = 0;                            ///< its order in texts that list what differs from one rank
  std::string_view word = {};               ///< its name in the words of a layout: "tp"; empty: it has none
  std::string_view brief = {};              ///< what the word means
  std::string_view values = {};             ///< of the word, where the rule does not tell them: "N or N:SCHEDULE"
  std::int64_t most = 0;                    ///< the word's greatest value, where below the rule's; 0: the rule's
  bool flag = false;                        ///< the word alone says true
  std::optional<PlanField> said_with = {};  ///< a list that has this field has the row's field too
  FieldBits bits = FieldBits::same;
};
/// One row a field, in the order of settings.
std::span<const FieldRow> plan_fields();
/// All fields, ordered by `place`.
std::vector<const FieldRow*> listed_fields();
const FieldRow& row_of(PlanField field);

/// How fields and what they depend on are spelt to one kind of reader.
class PlanGrammar {
 public:
  virtual ~PlanGrammar() = default;
  virtual std::string name(PlanField field) const = 0;
  /// Says what value a field has: "parallel.tp = 4".
  virtual std::string has(PlanField field, std::string_view value) const = 0;
  /// What to write so that the field has the value: "parallel.tp=4".
  virtual std::string set(PlanField field, std::string_view value) const = 0;
  /// What to write so that the field has the value that follows from other fields.
  virtual std::string unset(PlanField field) const = 0;
  /// What to write so that the model has `layers` layers. positions() is what the length of a sequence is called.
  virtual std::string set_layers(std::int64_t layers) const = 0;
  virtual std::string positions() const = 0;
  /// What to write so that no ranks serve the parameters.
  virtual std::string unserved() const = 0;

  std::string has(PlanField field, std::integral auto value) const { return has(field, std::string_view(std::to_string(value))); }
  std::string set(PlanField field, std::integral auto value) const { return set(field, std::string_view(std::to_string(value))); }
};

/// How a run's settings spell fields.
const PlanGrammar& settings_grammar();

/// What keeps the ranks of a plan from being workers of parameter servers, and why. `adapters`: adapters alone are trained.
std::vector<Problem> check_served(const PlanWish& wish, const PlanGrammar& say, bool adapters);

}  // namespace lockstep::layout
