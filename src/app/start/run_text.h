#pragma once

// What the ranks of a run read of its text.

#include <vector>

#include "app/settings/run_config.h"
#include "app/start/assemble.h"
#include "app/start/roles.h"
#include "app/start/session.h"
#include "base/error.h"
#include "base/log.h"
#include "data/corpus.h"

namespace lockstep::app {

/// What this rank reads of the text. It reads no more than its shard of a text that was cut ahead of time, and nothing where
/// others read for it. Rank 0 vouches for what all read. Collective.
data::Corpus open_text(const RunConfig& config, const Roles& roles, Session& session, Log& log);

/// What a text says of itself. `problems` gets what the settings cannot have of it.
TextFacts text_facts(const RunConfig& config, const data::Corpus& corpus, std::vector<Problem>& problems);

/// What a run would say of its text before it trains. A text that is not there, or cut for each rank, is not looked at.
std::vector<Problem> check_prepared_text(const RunConfig& config);

}  // namespace lockstep::app
