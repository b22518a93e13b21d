#pragma once

// What settings say of a pipeline as text: which schedule, and how the layers are cut.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"

namespace lockstep::app {

/// The table that parallel.schedule=file:TABLE.csv names; nothing for another schedule.
std::optional<io::Path> schedule_file(std::string_view schedule);
/// Its text. Throws UserError for what is no file, or far too large for a table.
std::string read_schedule(const io::Path& path);

/// Layers of each stage from "4,4,3,1"; nothing for another text.
std::optional<std::vector<std::int64_t>> split_from(std::string_view text);

}  // namespace lockstep::app
