#include "train/inference.h"

#include "arch/parameters.h"
#include "model/rotation.h"
#include "model/weights.h"

namespace lockstep::train {

Inference::Inference(const arch::ModelConfig& model, DType type, Runtime& runtime, ops::Ops& ops)
    : arena_("parameters", MemoryKind::parameters),
      table_arena_("tables", MemoryKind::workspace),
      packed_arena_("packed_head", MemoryKind::parameters),
      parameters_(arch::units_of(arch::unit_table(model)), {.type = type, .master = false}),
      boundary_(parallel::make_identity_boundary()),
      context_{model,
               arch::whole_dims(model),
               ops,
               parameters_,
               {boundary_.get(), boundary_.get()},
               {boundary_.get(), boundary_.get()}},
      runtime_(runtime) {
  parameters_.declare(arena_);
  model::declare_angles(context_, table_arena_);
  Ledger ledger;
  arena_.commit(runtime.memory(), ledger);
  table_arena_.commit(runtime.memory(), ledger);
  model::compute_angles(context_);
}

Inference::~Inference() {
  for (const Tensor& weights : prepacked_) context_.ops.linear().forget_prepacked(weights);
}

void Inference::load(const checkpoint::WeightSource& source, cpu::Team& team) {
  std::vector<checkpoint::HeldTensor> held;
  for (std::size_t u = 0; u < parameters_.units().size(); ++u) {
    const Tensor flat = parameters_.shard(UnitIndex{static_cast<int>(u)}).master;
    for (const layout::PlacedParameter& placed : parameters_.units()[u].parameters) {
      held.push_back(checkpoint::hold_whole(placed.info.name,
                                            flat.flat(placed.offset, placed.info.shape.elements()).reshape(placed.info.shape)));
    }
  }
  source.read_model(held, team);
  parameters_.updated();
}

void Inference::prepack() {
  using arch::Role;
  const layout::ShardedDims& dims = context_.dims;
  // Products take parts of these: q, k and v, the gate and what it multiplies.
  if (dims.head_size % 8 != 0 || dims.ffn_width % 8 != 0) return;
  const auto prepack = [&](const Tensor& weights, const Tensor& to) {
    if (context_.ops.linear().prepack(weights, to)) prepacked_.push_back(weights);
  };
  const auto weights_of = [&](UnitIndex unit) {
    return model::WeightSet(parameters_.units()[static_cast<std::size_t>(unit.value)], parameters_.shard(unit).published);
  };
  const arch::UnitMap map = arch::unit_map(context_.config);
  for (const UnitIndex unit : map.blocks) {
    const model::WeightSet weights = weights_of(unit);
    for (const Role role : {Role::qkv_weight, Role::attention_out_weight, Role::up_weight, Role::down_weight})
      prepack(weights[role], weights[role]);
  }
  if (!context_.config.tied) {
    const Tensor head = weights_of(map.head)[Role::head_weight];
    return prepack(head, head);
  }
  const Tensor table = weights_of(map.tied)[Role::token_table];
  Tensor head;
  Ledger ledger;
  packed_arena_.declare(head, "head", table.shape, table.dtype);
  packed_arena_.commit(runtime_.memory(), ledger);
  prepack(table, head);
}

}  // namespace lockstep::train
