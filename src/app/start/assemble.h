#pragma once

// From settings, ranks and text to the engine's configuration: the one way there, for every command.

#include <cstdint>
#include <optional>

#include "app/settings/run_config.h"
#include "app/start/roles.h"
#include "app/start/session.h"
#include "layout/parallel_plan.h"
#include "tensor/ledger.h"
#include "train/engine_config.h"

namespace lockstep::app {

/// What the text tells the engine.
struct TextFacts {
  std::int64_t vocabulary = 0;
  std::optional<std::int32_t> document_end = {};  ///< where samples are several documents
};

/// The facts of a text before it is read: any token stands for the one that ends its documents.
TextFacts unread_text(const RunConfig& config, std::int64_t vocabulary);

/// The engine's configuration for these settings, on ranks that `plan` divides.
train::EngineConfig assemble(const RunConfig& config, const TextFacts& text, layout::ParallelPlan plan,
                             std::optional<train::ParameterServers> servers = {});

/// What a rank does in a run, before it takes anything.
struct AssembledRank {
  train::EngineConfig engine;
  Ledger memory;  ///< all that the rank will take, its text's and its samples' memory included
};

/// What this rank of a run does. The ranks that train agree on their plan. Weights stay gathered (ParallelPlan::kept) as far as
/// memory.limit has room for them. `ops`: the rank's kernels. Throws UserError for a layout that the ranks cannot have.
/// Collective over the session's ranks.
AssembledRank assemble(const RunConfig& config, const TextFacts& text, const Roles& roles, Session& session, ops::Ops& ops);

}  // namespace lockstep::app
