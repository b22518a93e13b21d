#pragma once

// The fields of a plan that a user chooses, and how a user is told of them. What is wrong with a plan is a matter of its fields;
// how a field is spelt is a matter of who reads it: "parallel.tp = 4" in settings, "tp=4" in the words of a layout.

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::layout {

enum class PlanField : std::uint8_t {
  dp,
  tp,
  sequence,
  cp,
  context,
  pp,
  schedule,
  virtual_stages,
  split,
  gas,
  reduce,
  zero,
  zero_group,
  ranks_per_host,
  allow_tp_across_hosts,
  prefetch,
  reshard,
  recompute,
  tiles,
  max_tile_bytes,
  offload_optimizer,
  offload_params,
  offload_activations,
  canonical
};

struct FieldRow {
  PlanField field;
  std::string_view setting;  ///< "parallel.tp"
  std::string_view word;     ///< of a layout: "tp"; empty: layouts do not have it
  bool flag = false;         ///< the word alone says true
};
/// One row a field, in the order of the enum.
std::span<const FieldRow> plan_fields();
const FieldRow& row_of(PlanField field);

/// How fields and what they depend on are spelt to one kind of reader.
class PlanGrammar {
 public:
  virtual ~PlanGrammar() = default;
  virtual std::string name(PlanField field) const = 0;
  /// What a field has: "parallel.tp = 4".
  virtual std::string has(PlanField field, std::string_view value) const = 0;
  /// What to write so that it has it: "parallel.tp=4".
  virtual std::string set(PlanField field, std::string_view value) const = 0;
  /// What to write so that it has what follows from other fields.
  virtual std::string unset(PlanField field) const = 0;
  /// What to write so that the model has so many layers, and what the length of a sequence is called.
  virtual std::string set_layers(std::int64_t layers) const = 0;
  virtual std::string positions() const = 0;

  std::string has(PlanField field, std::integral auto value) const { return has(field, std::string_view(std::to_string(value))); }
  std::string set(PlanField field, std::integral auto value) const { return set(field, std::string_view(std::to_string(value))); }
};

/// Of a run's settings.
const PlanGrammar& settings_grammar();

}  // namespace lockstep::layout
