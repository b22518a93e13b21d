#include "train/inference.h"

#include <array>

#include "arch/parameters.h"
#include "arch/shard_rules.h"
#include "checkpoint/held_unit.h"
#include "checkpoint/replicated.h"
#include "layout/pipeline/schedules.h"
#include "model/attention/rotation.h"
#include "model/canonical.h"
#include "model/weights.h"

namespace lockstep::train {

namespace {

/// Nothing is updated: what each rank has of the weights is all there is.
layout::ParallelPlan reading(layout::ParallelPlan plan) {
  plan.optimizer = plan.gradients = plan.parameters;
  return plan;
}

layout::TensorRank tensor_of(const parallel::Groups& groups) { return {.rank = groups.at().tp, .ranks = groups.plan().tp}; }

std::vector<arch::LeaseClass> classes_of(const arch::ModelConfig& model, DType type, const parallel::Groups& groups,
                                         const std::vector<layout::Chunk>& chunks) {
  const std::vector<layout::Unit> units = arch::units_of(arch::unit_table(model), tensor_of(groups));
  return arch::lease_classes(arch::parts_of(arch::part_map(model, units, arch::lease_rule(groups.plan(), type)), chunks),
                             arch::unit_map(model));
}

PipelineLinks links_of(const parallel::Groups& groups) {
  const layout::StageMap stages = layout::stage_map(groups.plan());
  return {.group = &groups.pipeline(), .chunks = stages.neighbours_of(groups.at().pp), .head = stages.last_rank()};
}

}  // namespace

Inference::Inference(const arch::ModelConfig& model, DType type, Runtime& runtime, ops::Ops& ops, const parallel::Groups& groups,
                     const parallel::StoreFactory& make_store)
    : groups_(groups),
      table_(arch::unit_table(model)),
      chunks_(layout::chunks_of(groups.plan(), groups.at().pp, model.layers)),
      links_(links_of(groups)),
      arena_("parameters", MemoryKind::parameters),
      table_arena_("tables", MemoryKind::workspace),
      packed_arena_("packed_head", MemoryKind::parameters),
      weights_(arch::units_of(table_, arch::unit_map(model), chunks_, tensor_of(groups)), {.type = type, .master = false},
               reading(groups.plan()), groups.at(), classes_of(model, type, groups, chunks_)),
      parameters_(make_store(weights_, groups, ops.stream())),
      boundary_(parallel::make_reading_boundary(groups)),
      attention_(parallel::make_local_attention()),
      sums_(model::make_reading_sums(model, arch::sharded_dims(model, tensor_of(groups)), groups.plan().canonical)),
      context_{.config = model,
               .dims = arch::sharded_dims(model, tensor_of(groups)),
               .ops = ops,
               .parameters = *parameters_,
               .boundaries = parallel::Boundaries::all(*boundary_),
               .attention = *attention_,
               .sums = *sums_,
               .angles = angles_,
               .leases = arch::lease_rule(groups.plan(), type),
               .adapters = arch::adapter_sites(model, arch::sharded_dims(model, tensor_of(groups)))},
      runtime_(runtime),
      pinned_arena_("from files", MemoryKind::workspace),
      pieces_(ops.stream(), piece_buffer_) {
  weights_.declare(arena_, arena_);
  HostPieces::declare(pinned_arena_, piece_buffer_, runtime.device());
  if (groups.plan().canonical) ops.take_sum_grids();
  model::declare_angles(table_arena_, angles_, model);
  Ledger ledger;
  weights_.sharded ? arena_.commit(groups.all().window(runtime.memory()), ledger) : arena_.commit(runtime, ledger);
  table_arena_.commit(runtime, ledger);
  if (pinned_arena_.bytes() > 0) pinned_arena_.commit(runtime.memory(Space::pinned), ledger);
  model::compute_angles(context_);
}

void Inference::load(const checkpoint::WeightSource& source, Team& team) {
  const std::array<std::string, 1> weights{""};
  std::vector<checkpoint::UnitBuffer> buffers;
  for (std::size_t u = 0; u < parameters_->units().size(); ++u)
    buffers.push_back({&parameters_->units()[u], parameters_->shard(UnitIndex{static_cast<int>(u)}).master});
  const auto reader = source.read_model(checkpoint::tensors_of(arch::units_of(table_), parameters_->dtype(), weights));
  if (weights_.sharded) {
    read_parts(*reader, team);
  } else {
    checkpoint::read_whole(*reader, buffers, groups_.replicas(), groups_.all(), pieces_, team);
  }
  parameters_->updated();
}

void Inference::read_parts(checkpoint::RangeReader& reader, Team& team) {
  ensure(groups_.plan().parameters.cut == layout::CutOver::all, "each rank reads another part");
  for (std::size_t u = 0; u < parameters_->units().size(); ++u) {
    const parallel::ParameterStore::Shard shard = parameters_->shard(UnitIndex{static_cast<int>(u)});
    pieces_.change(shard.master, [&](const Tensor& piece, std::int64_t first) {
      reader.fill(checkpoint::hold(parameters_->units()[u], {shard.first + first, piece.elements()}, piece), team);
    });
  }
  reader.finish(groups_.all());
}

void Inference::prepack() {
  if (weights_.sharded) return;  // what is gathered lies in rows
  using arch::Role;
  const layout::ShardedDims& dims = context_.dims;
  // Products take parts of these: q, k and v, the gate and what it multiplies.
  if (dims.head_size % 8 != 0 || dims.ffn_width % 8 != 0) return;
  const auto weights_of = [&](UnitIndex unit) {
    return model::WeightSet(parameters_->units()[static_cast<std::size_t>(unit.value)], parameters_->shard(unit).published);
  };
  const auto prepack = [&](UnitIndex unit, Role role, const Tensor& weights, const Tensor& to) {
    parameters_->add_packed(unit, {static_cast<int>(role), context_.ops.linear().prepack(weights, to)});
  };
  const arch::UnitMap map = arch::unit_map(context_.config);
  const auto is_held = [&](UnitIndex unit) {
    return !parameters_->units()[static_cast<std::size_t>(unit.value)].parameters.empty();
  };
  for (const UnitIndex unit : map.blocks) {
    if (!is_held(unit)) continue;
    const model::WeightSet weights = weights_of(unit);
    for (const Role role : {Role::qkv_weight, Role::up_weight}) prepack(unit, role, weights[role], weights[role]);
    if (groups_.plan().canonical) continue;  // products by ranges read rows
    for (const Role role : {Role::attention_out_weight, Role::down_weight}) prepack(unit, role, weights[role], weights[role]);
  }
  if (!chunks_.back().head) return;
  const UnitIndex unit = map.head_reads.back();
  const Tensor projection = weights_of(unit)[map.projection];
  Tensor to = projection;
  if (map.projection != Role::head_weight) {  // embedding reads the rows of a tied matrix
    Ledger ledger;
    packed_arena_.declare(to, "head", projection.shape, projection.dtype);
    packed_arena_.commit(runtime_, ledger);
  }
  prepack(unit, Role::head_weight, projection, to);
}

}  // namespace lockstep::train
