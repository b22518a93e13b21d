#pragma once

// A tiny model's chunks on one rank with everything that they need, for tests of schedules and of boundaries. Its gradients are
// in a plain store.

#include <map>
#include <memory>
#include <vector>

#include "arch/shard_rules.h"
#include "layout/pipeline/pipeline_schedule.h"
#include "model/attention/rotation.h"
#include "model/initialise.h"
#include "model/stage.h"
#include "parallel/zero/resident_parameters.h"
#include "parallel/zero/resident_state.h"
#include "support/machine.h"

namespace lockstep::support {

/// Gradients of each unit in a buffer of its own, and an embedding's rows in another; nothing is reduced.
class PlainGradients final : public parallel::GradientStore {
 public:
  PlainGradients(const std::vector<layout::Unit>& units, const Shape& table) : rows_(static_cast<std::size_t>(table.elements())) {
    for (const layout::Unit& unit : units) values_.emplace_back(static_cast<std::size_t>(unit.elements), -1.0F);
    table_ = view(std::span(rows_), Shape{table.elements()}).reshape(table);
    opened_.resize(units.size());
    closed_.resize(units.size());
  }
  void begin(int /*microbatches*/) override {
    std::ranges::fill(rows_, 0.0F);
    std::ranges::fill(opened_, 0);
    std::ranges::fill(closed_, 0);
  }
  parallel::OpenGradient open(UnitIndex unit, Microbatch microbatch) override {
    ensure(microbatch.value == opened_[index(unit)]++, "units are opened in the order of micro-batches");
    return {flat(unit), microbatch.value > 0};
  }
  void expect(const Tensor& /*tokens*/) override {}
  Tensor open_rows(Microbatch /*microbatch*/) override { return table_; }
  void close(UnitIndex unit, Microbatch microbatch) override {
    ensure(microbatch.value == closed_[index(unit)]++, "units are closed in the order of micro-batches");
  }
  void finish() override {}
  Shard shard(UnitIndex unit) override { return {flat(unit), 0}; }
  /// How many micro-batches have closed the unit.
  int closed(UnitIndex unit) const { return closed_[index(unit)]; }
  const Tensor& rows() const { return table_; }

 private:
  static std::size_t index(UnitIndex unit) { return static_cast<std::size_t>(unit.value); }
  Tensor flat(UnitIndex unit) { return view(std::span(values_[index(unit)]), Shape{std::ssize(values_[index(unit)])}); }
  std::vector<std::vector<float>> values_;
  std::vector<float> rows_;
  Tensor table_;
  std::vector<int> opened_, closed_;
};

/// What a rank has of a model, and how it meets the others.
struct TinyLayout {
  layout::TensorRank tensor = {};                    ///< the rank's place in the tensor parallelism of the blocks
  const parallel::Boundaries* boundaries = nullptr;  ///< null: local ones
  DType type = DType::f32;
  bool vocabulary = false;                          ///< true: embedding and head are divided, too; false: they are whole
  parallel::ContextAttention* attention = nullptr;  ///< null: a local one
  layout::Recompute recompute = {};
};

/// Chunks of a model, with start values from seed 7.
struct TinyStages {
  TinyStages(const arch::ModelConfig& config, const parallel::TokenGrid& tokens, const std::vector<layout::Chunk>& chunks,
             const std::vector<layout::Action>& actions, int microbatches, Machine& machine, const TinyLayout& layout = {})
      : table(arch::unit_table(config)),
        memory_of_weights(cut(table, arch::unit_map(config), layout), {.type = layout.type, .master = false}, {}),
        parameters(memory_of_weights, *machine.world),
        gradients(parameters.units(), Shape{dims_of(config, layout).vocabulary, config.width}),
        boundary(parallel::make_local_boundary()),
        attention(parallel::make_local_attention()),
        sums(dims_of(config, layout)),
        context{config,
                dims_of(config, layout),
                *machine.ops,
                parameters,
                layout.boundaries != nullptr ? *layout.boundaries : parallel::Boundaries::all(*boundary),
                layout.attention != nullptr ? *layout.attention : *attention,
                sums,
                angles,
                7},
        memory({.rows = model::rows_of(context.boundaries, tokens),
                .chunks = chunks,
                .lives = layout::lives_of(actions, chunks, microbatches),
                .attention = &context.attention,
                .recompute = layout.recompute,
                .judgers = sums.all_judgers}),
        stages(model::make_stages(context, gradients, memory)) {
    sums.connect(*machine.ops, *machine.world);
    memory_of_weights.declare(weights, weights);
    memory.declare(activations, workspace, config, context.dims, layout.type);
    model::declare_angles(workspace, angles, config);
    Ledger ledger;
    for (Arena* arena : {&weights, &activations, &workspace}) arena->commit(*machine.runtime, ledger);
    model::compute_angles(context);
    std::vector<float> drawn(1024);
    const parallel::SlotMemory no_slots;
    parallel::ResidentState state(parameters, gradients, no_slots, *machine.world);
    model::initialise(*machine.ops, state, table, 7, view(std::span(drawn), Shape{std::ssize(drawn)}));
  }
  static std::vector<layout::Unit> cut(const std::vector<arch::UnitSpec>& table, const arch::UnitMap& map,
                                       const TinyLayout& layout) {
    const std::vector<layout::Unit> cut = arch::units_of(table, layout.tensor);
    if (layout.vocabulary) return cut;
    std::vector<layout::Unit> units = arch::units_of(table);
    for (const UnitIndex block : map.blocks)
      units[static_cast<std::size_t>(block.value)] = cut[static_cast<std::size_t>(block.value)];
    return units;
  }
  static layout::ShardedDims dims_of(const arch::ModelConfig& config, const TinyLayout& layout) {
    layout::ShardedDims dims = arch::sharded_dims(config, layout.tensor);
    if (layout.vocabulary) return dims;
    const layout::ShardedDims whole = arch::whole_dims(config);
    dims.vocabulary = dims.greatest_vocabulary = whole.vocabulary;
    dims.first_token = whole.first_token;
    dims.vocabulary_part = whole.vocabulary_part;
    dims.vocabulary_parts = whole.vocabulary_parts;
    return dims;
  }
  /// The gradient of every parameter by name; of a token table with the embedding's rows added.
  std::map<std::string, std::vector<float>> named_gradients() {
    std::map<std::string, std::vector<float>> all;
    for (std::size_t u = 0; u < parameters.units().size(); ++u) {
      const Tensor flat = gradients.shard(UnitIndex{static_cast<int>(u)}).gradient;
      for (const layout::PlacedParameter& placed : parameters.units()[u].parameters) {
        const std::span<float> values = elements<float>(flat.flat(placed.offset, placed.shape().elements()));
        all[placed.info.name] = {values.begin(), values.end()};
      }
    }
    return all;
  }

  std::vector<arch::UnitSpec> table;
  Arena weights{"weights", MemoryKind::parameters}, activations{"activations", MemoryKind::activations},
      workspace{"temporaries", MemoryKind::workspace};
  parallel::ParameterMemory memory_of_weights;
  parallel::ResidentParameters parameters;
  PlainGradients gradients;
  std::unique_ptr<parallel::Boundary> boundary;
  std::unique_ptr<parallel::ContextAttention> attention;
  model::Sums sums;
  Mirror angles;
  model::Context context;
  model::ModelMemory memory;
  std::vector<std::unique_ptr<model::Stage>> stages;
};

}  // namespace lockstep::support
