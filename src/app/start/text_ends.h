#pragma once

// What ends the texts of a run: the documents that it is taught, and what the model that its weights come from says.

#include <cstdint>
#include <vector>

#include "app/settings/run_config.h"
#include "app/start/run_start.h"
#include "base/json.h"
#include "base/log.h"
#include "data/corpus.h"

namespace lockstep::app {

/// What the run keeps of the published model that its weights come from, at once or by way of checkpoints (published_files.h).
/// Null: there is nothing to keep. Conversations of `corpus` bring the template that they were written with. Collective over
/// `world`.
Json published_of(const RunConfig& config, const Start& start, const data::Corpus& corpus, comm::Communicator& world);

/// Tokens that end a sample, as they end the texts that `generate` writes with the run's checkpoints. `vocabulary`: the model's.
std::vector<std::int32_t> sample_ends(const data::Corpus& corpus, const Json& published, std::int64_t vocabulary, Log& log);

}  // namespace lockstep::app
