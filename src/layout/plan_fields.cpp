#include "layout/plan_fields.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"

namespace lockstep::layout {
namespace {

using enum PlanField;

constexpr std::array rows{FieldRow{dp, "parallel.dp", "dp"},
                          FieldRow{tp, "parallel.tp", "tp"},
                          FieldRow{sequence, "parallel.sequence", "sequence", true},
                          FieldRow{cp, "parallel.cp", "cp"},
                          FieldRow{context, "parallel.context", "context"},
                          FieldRow{pp, "parallel.pp", "pp"},
                          FieldRow{schedule, "parallel.schedule", ""},
                          FieldRow{virtual_stages, "parallel.virtual_stages", "virtual_stages"},
                          FieldRow{split, "parallel.split", "split"},
                          FieldRow{gas, "optimizer.gas", "gas"},
                          FieldRow{reduce, "parallel.reduce", "reduce"},
                          FieldRow{zero, "memory.zero", "zero"},
                          FieldRow{zero_group, "memory.zero_group", "zero_group"},
                          FieldRow{ranks_per_host, "parallel.ranks_per_host", "ranks_per_host"},
                          FieldRow{allow_tp_across_hosts, "parallel.allow_tp_across_hosts", ""},
                          FieldRow{prefetch, "memory.prefetch", "prefetch"},
                          FieldRow{reshard, "memory.reshard_after_forward", "reshard"},
                          FieldRow{recompute, "memory.recompute", "recompute"},
                          FieldRow{tiles, "memory.tiles", "tiles"},
                          FieldRow{max_tile_bytes, "memory.max_tile_bytes", ""},
                          FieldRow{offload_optimizer, "memory.offload_optimizer", ""},
                          FieldRow{offload_params, "memory.offload_params", ""},
                          FieldRow{offload_activations, "memory.offload_activations", ""},
                          FieldRow{canonical, "numerics.canonical", "canonical", true}};

class SettingsGrammar : public PlanGrammar {
 public:
  std::string name(PlanField field) const override { return std::string(row_of(field).setting); }
  std::string has(PlanField field, std::string_view value) const override { return fmt::format("{} = {}", name(field), value); }
  std::string set(PlanField field, std::string_view value) const override { return fmt::format("{}={}", name(field), value); }
  std::string unset(PlanField field) const override { return set(field, "null"); }
  std::string set_layers(std::int64_t layers) const override { return fmt::format("model.n_layer={}", layers); }
  std::string positions() const override { return "model.block_size"; }
};

}  // namespace

std::span<const FieldRow> plan_fields() { return rows; }

const FieldRow& row_of(PlanField field) {
  const FieldRow& row = rows.at(static_cast<std::size_t>(field));
  ensure(row.field == field, "rows stand in the order of the fields");
  return row;
}

const PlanGrammar& settings_grammar() {
  static const SettingsGrammar grammar;
  return grammar;
}

}  // namespace lockstep::layout
