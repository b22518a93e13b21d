#pragma once

// Schedules of a pipeline that settings name as files.

#include <optional>
#include <string>
#include <string_view>

#include "io/file.h"

namespace lockstep::app {

/// The table that parallel.schedule=file:TABLE.csv names; nothing for another schedule.
std::optional<io::Path> schedule_file(std::string_view schedule);
/// The text of that table. Throws UserError for what is no file, or far too large for a table.
std::string read_schedule(const io::Path& path);

}  // namespace lockstep::app
