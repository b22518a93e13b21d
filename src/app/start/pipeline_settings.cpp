#include "app/start/pipeline_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
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

std::optional<std::vector<std::int64_t>> split_from(std::string_view text) {
  std::vector<std::int64_t> split;
  while (true) {
    const std::size_t end = std::min(text.find(','), text.size());
    std::int64_t layers = 0;
    const char* const first = text.data();
    const auto [rest, error] = std::from_chars(first, first + end, layers);
    if (error != std::errc{} || rest != first + end || layers < 0) return std::nullopt;
    split.push_back(layers);
    if (end == text.size()) return split;
    text.remove_prefix(end + 1);
  }
}

}  // namespace lockstep::app
