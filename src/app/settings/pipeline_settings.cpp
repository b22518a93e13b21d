#include "app/settings/pipeline_settings.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/text/utf8.h"

namespace lockstep::app {

std::optional<io::Path> schedule_file(std::string_view schedule) {
  constexpr std::string_view prefix = "file:";
  if (!schedule.starts_with(prefix)) return std::nullopt;
  return io::Path(schedule.substr(prefix.size()));
}

std::string read_schedule(const io::Path& path) {
  constexpr std::uintmax_t most_table_bytes = 64 << 20;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    throw UserError(fmt::format("{} is no file", path.string()),
                    "name a table as PyTorch writes them: parallel.schedule=file:TABLE.csv");
  }
  if (std::filesystem::file_size(path, error) > most_table_bytes)
    throw UserError(fmt::format("{} has more than 64 MiB: that is no schedule's table", path.string()), "");
  return std::string(without_mark(io::read_file(path)));
}

}  // namespace lockstep::app
