#pragma once

// What the words of train.backend stand for.

#include <vector>

#include "app/settings/run_config.h"

namespace lockstep::settings {

struct Backend {
  app::BackendKind kind;
  int zero;                ///< the memory.zero that it names
  bool names;              ///< false: it leaves memory.zero free
  bool deepspeed = false;  ///< it takes train.ds_config_path, which may name another level
};
const Backend& find_backend(app::BackendKind kind);

/// Where a backend and other settings contradict each other.
std::vector<Problem> check_backend(const app::RunConfig& config);

}  // namespace lockstep::settings
