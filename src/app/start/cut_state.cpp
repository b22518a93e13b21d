#include "app/start/cut_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "app/settings/choices.h"
#include "base/units.h"
#include "layout/state_cut.h"
#include "train/memory/rank_memory.h"

namespace lockstep::app {
namespace {

using layout::CutOver;

/// Bytes of the places in which a rank holds leased weights.
std::int64_t leased_bytes(const train::EngineConfig& config) {
  std::int64_t bytes = 0;
  const train::RankMemory memory(config, {});
  for (const LedgerTensor& tensor : memory.ledger(0).tensors()) {
    const bool place = tensor.name == "gathered" || tensor.name == "gathered tiles" || tensor.name == "brought";
    if (tensor.kind == MemoryKind::parameters && place) bytes += tensor.bytes;
  }
  return bytes;
}

std::string gradient_bytes(const train::EngineConfig& config) {
  return format_bytes(static_cast<std::uint64_t>(train::RankMemory(config, {}).ledger(0).total(MemoryKind::gradients)));
}

// Shares need not be even.
std::vector<std::string> notes_on_tensor_ranks(const train::EngineConfig& config) {
  if (config.plan.tp == 1) return {};
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
  for (int tp = 0; tp < config.plan.tp; ++tp) {
    const std::int64_t bytes = train::RankMemory(config, {.tp = tp}).ledger(0).total();
    least = std::min(least, bytes);
    most = std::max(most, bytes);
  }
  const auto text = [](std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); };
  return {fmt::format("parallel.tp = {}: each rank has a part of every layer, {} to train in beside batches and samples",
                      config.plan.tp, least == most ? text(most) : text(least) + " to " + text(most))};
}

/// What each stage's ranks take, where they have different layers.
std::string note_on_stages(const train::EngineConfig& config) {
  std::vector<std::string> stages;
  for (int pp = 0; pp < config.plan.pp; ++pp) {
    const train::RankMemory memory(config, {.pp = pp});
    std::int64_t layers = 0;
    for (const layout::Chunk& chunk : memory.part.chunks) layers += chunk.blocks.count;
    stages.push_back(fmt::format("{} layer{}, {}", layers, layers == 1 ? "" : "s",
                                 format_bytes(static_cast<std::uint64_t>(memory.ledger(0).total()))));
  }
  return fmt::format("parallel.pp = {} ({}): ranks have {}", config.plan.pp, config.plan.schedule, fmt::join(stages, "; "));
}

std::vector<std::string> notes_on_zero(const train::EngineConfig& config) {
  const layout::ParallelPlan& plan = config.plan;
  const layout::StateCut cut = layout::state_cut(plan, {}, plan.optimizer.cut);
  std::vector<std::string> notes = notes_on_tensor_ranks(config);
  if (cut.whole()) return notes;
  const bool gradients = plan.gradients.cut != CutOver::none, weights = plan.parameters.cut != CutOver::none;
  notes.push_back(fmt::format("memory.zero = {}: each rank has 1/{} of {}{}",
                              weights     ? 3
                              : gradients ? 2
                                          : 1,
                              cut.parts,
                              weights     ? "the optimizer's state, gradients and weights"
                              : gradients ? "the optimizer's state and gradients"
                                          : "the optimizer's state",
                              cut.copies > 1 ? fmt::format(", as on {} hosts", cut.copies) : ""));
  if (gradients && plan.microbatches > 1 && plan.reduce == layout::ReduceEvery::step && !plan.canonical) {
    train::EngineConfig each = config;
    each.plan.reduce = layout::ReduceEvery::microbatch;
    notes.push_back(
        fmt::format("parallel.reduce = step: gradients are whole until the last of {} micro-batches, {}; "
                    "parallel.reduce=microbatch (other bits) keeps {}",
                    plan.microbatches, gradient_bytes(config), gradient_bytes(each)));
  }
  return notes;
}

// In memory that has nothing else: gradients, and what is summed by ranges.
std::string note_on_canonical(train::EngineConfig config) {
  const train::RankMemory with(config, {});
  config.plan.canonical = false;
  const train::RankMemory without(config, {});
  const auto more = [&](auto total) { return format_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(0, total))); };
  const Ledger ours = with.ledger(0), usual = without.ledger(0);
  return fmt::format("numerics.canonical = true: sums by ranges take {} of gradients and {} besides, on each rank",
                     more(ours.total(MemoryKind::gradients) - usual.total(MemoryKind::gradients)),
                     more(ours.total() - ours.total(MemoryKind::gradients) - usual.total() + usual.total(MemoryKind::gradients)));
}

}  // namespace

std::vector<std::string> notes_on_cut_state(const train::EngineConfig& config) {
  std::vector<std::string> notes = notes_on_zero(config);
  if (config.plan.canonical) notes.push_back(note_on_canonical(config));
  if (config.plan.pp > 1) notes.push_back(note_on_stages(config));
  if (config.plan.kept > 0) {
    notes.push_back(fmt::format("memory.limit leaves room for the weights of {} more block{}, which stay gathered",
                                config.plan.kept, config.plan.kept == 1 ? "" : "s"));
  }
  return notes;
}

std::vector<std::string> notes_on_offload(const RunConfig& config, const train::EngineConfig& settings,
                                          const std::string& elsewhere) {
  const RunConfig::Memory& to = config.memory;
  const train::RankMemory memory(settings, {});
  struct Row {
    const char* name;
    OffloadTo place;
    layout::Tier tier;
    std::vector<std::string_view> what;
  };
  const std::vector<Row> rows{
      {"optimizer", to.offload_optimizer, settings.plan.optimizer.tier, {"master weights", "optimizer slots", "gradients"}},
      {"params", to.offload_params, settings.plan.parameters.tier, {"weights"}},
      {"activations", to.offload_activations, settings.plan.activations, {"activations"}}};
  std::vector<std::string> notes;
  for (const Row& row : rows) {
    if (row.place == OffloadTo::none) continue;
    const std::string setting = fmt::format("memory.offload_{} = {}: ", row.name, word_of(row.place));
    if (row.tier == layout::Tier::device) {
      notes.push_back(setting + "the device's memory is the host's, so this moves nothing and saves nothing here");
      continue;
    }
    std::vector<std::string> parts;
    for (const std::string_view what : row.what) {
      const std::int64_t bytes = memory.spill.bytes_of(what);
      if (bytes > 0) parts.push_back(fmt::format("{} of {}", format_bytes(static_cast<std::uint64_t>(bytes)), what));
    }
    notes.push_back(fmt::format("{}each rank keeps {} {}", setting, fmt::join(parts, ", "),
                                row.place == OffloadTo::nvme ? "in " + *to.nvme_path : "in the host's memory"));
  }
  if (settings.plan.parameters.tier != layout::Tier::device && config.sample.tokens > 0) {
    notes.push_back(
        fmt::format("memory.offload_params = {}: each token of a sample reads the weights once more, {} times at "
                    "every evaluation; sample.tokens=0 leaves samples out",
                    word_of(to.offload_params), config.sample.tokens));
  }
  if (settings.plan.optimizer.tier != layout::Tier::device && !memory.updater.offloaded_gradients.used()) {
    notes.push_back(
        fmt::format("memory.offload_optimizer = {}: gradients stay in memory: this schedule, parallel.reduce=microbatch, or "
                    "numerics.canonical, adds several micro-batches or units side by side",
                    word_of(to.offload_optimizer)));
  }
  if (!elsewhere.empty()) notes.push_back("offloaded: " + elsewhere);
  return notes;
}

std::vector<std::string> notes_on_tiles(const RunConfig& config, const train::EngineConfig& settings) {
  if (!config.memory.tiles.cut()) return {};
  const std::string setting = fmt::format("memory.tiles = {}: ", to_string(config.memory.tiles));
  if (!settings.plan.tiles.cut())
    return {setting +
            "weights lie whole in memory (neither memory.zero=3 nor memory.offload_params), so this saves nothing here"};
  train::EngineConfig whole = settings;
  whole.plan.tiles = {};
  const std::int64_t cut_bytes = leased_bytes(settings), whole_bytes = leased_bytes(whole);
  if (train::lease_parts(settings, train::rank_part(settings, {})).blocks.front().tiled.empty()) {
    return {
        fmt::format("{}no matrix of a block is larger than memory.max_tile_bytes = {} and has more than {} features to cut, so "
                    "this saves nothing here",
                    setting, config.memory.max_tile_bytes, layout::tile_features)};
  }
  return {fmt::format("{}places for leased weights take {} instead of {}", setting,
                      format_bytes(static_cast<std::uint64_t>(cut_bytes)),
                      format_bytes(static_cast<std::uint64_t>(whole_bytes)))};
}

}  // namespace lockstep::app
