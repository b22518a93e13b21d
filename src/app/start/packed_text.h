#pragma once

// Training on a text whose windows have whole documents (data/prepare/packing).

#include <string>
#include <vector>

#include "app/settings/run_config.h"
#include "base/error.h"
#include "data/corpus.h"
#include "data/token_description.h"

namespace lockstep::app {

/// The settings with which a run reads such windows as they are, and documents do not see each other.
std::vector<std::string> settings_for(const data::Packing& packing);
/// Which of those settings the run does not have, and what keeps train.objective from this text.
std::vector<Problem> check_text(const RunConfig& config, const data::Corpus& corpus);

}  // namespace lockstep::app
