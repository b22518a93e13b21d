#include "train/server/server_rank_memory.h"

#include "device/runtime.h"

namespace lockstep::train {
namespace {

const ParameterServers& servers_of(const EngineConfig& config) {
  ensure(config.servers.has_value(), "a rank serves where there are servers");
  return *config.servers;
}

parallel::ServerMemory::Keeps kept_by(const EngineConfig& config) {
  const bool averages = servers_of(config).mode == ServerMode::weights;
  return {.rows = config.model.tied && servers_of(config).mode == ServerMode::gradients,
          .slots = averages ? std::vector<std::string>{} : make_optimizer(config.optimizer)->slots(),
          .type = config.weights.owned(),
          .slot_type = config.slot_type(),
          .pushed = averages ? config.weights.owned() : DType::f32};
}

}  // namespace

layout::KeyRanges key_ranges(const EngineConfig& config, int workers) {
  const arch::UnitMap map = arch::unit_map(config.model);
  return {arch::units_of(arch::unit_table(config.model, config.decay)), arch::backward_order(map), map.tied, workers,
          servers_of(config).count};
}

ServerRankMemory::ServerRankMemory(const EngineConfig& config, int workers, int number, Device device)
    : server(key_ranges(config, workers), kept_by(config), number),
      device_(device),
      parameter_arena_("parameters", MemoryKind::parameters),
      gradient_arena_("pushed", MemoryKind::gradients),
      optimizer_arena_("optimizer slots", MemoryKind::optimizer) {
  server.declare(parameter_arena_, optimizer_arena_, gradient_arena_);
  optimizer_arena_.declare(scalars.values, "step_scalars", Shape{ops::StepScalars::count}, DType::f32);
  optimizer_arena_.declare(squares, "squares of gradients", Shape{std::ssize(server.parts) * workers}, DType::f64);
}

Ledger ServerRankMemory::ledger(std::int64_t kernels) const {
  Ledger ledger;
  for (const Arena* arena : {&parameter_arena_, &gradient_arena_, &optimizer_arena_}) {
    if (arena->bytes() > 0) arena->enter(ledger, device_);
  }
  ledger.add(MemoryKind::workspace, "kernels", kernels, {});
  return ledger;
}

void ServerRankMemory::commit(Runtime& runtime, MemorySource& window) {
  ensure(runtime.device() == device_, "memory is taken on the device that it was declared for");
  Ledger committed;
  if (parameter_arena_.bytes() > 0) parameter_arena_.commit(window, committed);
  for (Arena* arena : {&optimizer_arena_, &gradient_arena_}) {
    if (arena->bytes() > 0) arena->commit(runtime, committed);
  }
}

}  // namespace lockstep::train
