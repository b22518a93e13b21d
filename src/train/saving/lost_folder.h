#pragma once

// A run whose folder was renamed, moved or removed while it trained.

#include <cstdint>
#include <optional>

#include "io/held_folder.h"

namespace lockstep::train {

/// Throws SystemError unless the folder is where the run began. The message says what became of it, and where the run's last
/// checkpoint is. `checkpoint`: that checkpoint's step; null: none was saved. `step`: the steps that were done.
void demand_place(const io::HeldFolder& folder, std::int64_t step, std::optional<std::int64_t> checkpoint);

}  // namespace lockstep::train
