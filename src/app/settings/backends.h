#pragma once

// What the names of train.backend stand for.

#include <span>
#include <string_view>
#include <vector>

#include "app/run_config.h"

namespace lockstep::settings {

struct Backend {
  std::string_view name;
  int zero;                ///< the memory.zero that it names
  bool names;              ///< false: it leaves memory.zero free
  bool deepspeed = false;  ///< it takes train.ds_config_path, which may name another level
};
std::span<const Backend> backends();
/// Throws BrokenRule for a name that is not one of them.
const Backend& find_backend(std::string_view name);

/// Where a backend and other settings contradict each other.
std::vector<Problem> check_backend(const app::RunConfig& config);

}  // namespace lockstep::settings
