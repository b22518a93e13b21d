#pragma once

// A training job as another system's files say it, in our settings.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/settings/run_config.h"
#include "planner/system.h"

namespace lockstep::app {

struct ForeignJob {
  std::string_view form;  ///< "arguments of Megatron-LM"
  RunConfig config = {};  ///< its model.* where has_model, its layout; optimizer.gas follows from `batch` where that is known
  planner::System system = {};                       ///< as the file has it
  bool has_model = false;                            ///< the file says the model; else `config` has only its micro-batch
  bool has_samples = true;                           ///< the file says the samples of a micro-batch
  bool has_steps = false;                            ///< the file says optimizer.gas
  std::optional<std::int64_t> batch = std::nullopt;  ///< samples of a step
  std::int64_t nodes = 0, devices = 0;               ///< nodes, and devices of a node; 0: the file does not say
  std::vector<std::string> notes = {};               ///< what was not counted, a sentence each
  std::int64_t ignored = 0;                          ///< other arguments, which change neither time nor memory
};

}  // namespace lockstep::app
