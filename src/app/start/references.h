#pragma once

// What answers of pairs are compared with: the log-probabilities that the weights which a run begins with give them. They are
// made once, by a pass over the text, and kept beside it under hashes of those weights and of the text.

#include "app/settings/run_config.h"
#include "app/start/run_start.h"
#include "app/start/session.h"
#include "app/start/training_data.h"
#include "base/json.h"
#include "base/log.h"
#include "data/corpus.h"
#include "train/engine.h"

namespace lockstep::app {

/// Fills data.references() and returns what the run's checkpoints keep to find them again; null where samples are no pairs. A run
/// that goes on reads those that it was begun with. `identity`: identify_run()'s, of rank 0. Throws UserError where they are
/// gone, damaged, or of another text. Collective over the engine's ranks.
Json bring_references(const RunConfig& config, const Start& start, const data::Corpus& corpus, const Json& identity,
                      const TrainingData& data, train::Engine& engine, Session& session, Log& log);

}  // namespace lockstep::app
