#pragma once

// What keeps Megatron-LM from starting a job whose arguments it knows.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/settings/run_config.h"
#include "base/error.h"

namespace lockstep::app::megatron {

/// The arguments as they were given, and those on chunks that have been read.
struct StagesAsked {
  const std::map<std::string, std::string, std::less<>>& given;
  std::optional<std::int64_t> chunks;           ///< --num-virtual-stages-per-pipeline-rank
  std::optional<std::int64_t> layers_of_chunk;  ///< --num-layers-per-virtual-pipeline-stage
};

/// Problems of the job's heads and stages, without the file's name. Empty: it starts.
std::vector<Problem> why_not_started(const RunConfig& config, const StagesAsked& asked);

}  // namespace lockstep::app::megatron
