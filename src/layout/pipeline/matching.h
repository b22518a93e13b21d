#pragma once

// Whether the lists of a pipeline's ranks fit together: before any of them waits for a message that never comes.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/pipeline/pipeline_schedule.h"
#include "layout/pipeline/stage_map.h"

namespace lockstep::layout {

/// A list as text, an action a line, for another rank to read.
std::string write_actions(const std::vector<Action>& actions);
/// Reads what write_actions() wrote. Returns nothing for another text.
std::optional<std::vector<Action>> read_actions(std::string_view text);

/// What does not match between the lists of a pipeline's ranks, in words; empty: everything matches. Messages must be received in
/// the order in which they are sent. No pass may wait for ever for what another rank makes. A list may be what another rank
/// computed for itself.
std::vector<std::string> mismatches_of(const std::vector<std::vector<Action>>& lists, const StageMap& map);

}  // namespace lockstep::layout
