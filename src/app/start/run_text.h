#pragma once

// What the ranks of a run read of its text.

#include "app/settings/run_config.h"
#include "app/start/roles.h"
#include "app/start/session.h"
#include "base/error.h"
#include "base/log.h"
#include "data/corpus.h"

namespace lockstep::app {

/// What this rank reads of the text: of one that was cut ahead of time no more than its shard, and nothing where others read for
/// it. Rank 0 vouches for what all read. Collective.
data::Corpus open_text(const RunConfig& config, const Roles& roles, Session& session, Log& log);

/// Why data.documents cannot be had of a text.
Problem no_document_end(const RunConfig& config, const data::Corpus& corpus);

}  // namespace lockstep::app
