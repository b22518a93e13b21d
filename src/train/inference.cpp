#include "train/inference.h"

#include "arch/parameters.h"
#include "model/rotation.h"

namespace lockstep::train {

Inference::Inference(const arch::ModelConfig& model, DType type, Runtime& runtime, ops::Ops& ops)
    : arena_("parameters", MemoryKind::parameters),
      table_arena_("tables", MemoryKind::workspace),
      parameters_(arch::units_of(arch::unit_table(model)), {.type = type, .master = false}),
      boundary_(parallel::make_identity_boundary()),
      context_{model,
               arch::whole_dims(model),
               ops,
               parameters_,
               {boundary_.get(), boundary_.get()},
               {boundary_.get(), boundary_.get()}} {
  parameters_.declare(arena_);
  model::declare_angles(context_, table_arena_);
  Ledger ledger;
  arena_.commit(runtime.memory(), ledger);
  table_arena_.commit(runtime.memory(), ledger);
  model::compute_angles(context_);
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

}  // namespace lockstep::train
