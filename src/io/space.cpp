#include "io/space.h"

#include <fmt/format.h>

#include <system_error>

#include "base/error.h"
#include "base/units.h"

namespace lockstep::io {

std::optional<std::uint64_t> free_bytes(const Path& folder) {
  std::error_code unknown;
  const auto space = std::filesystem::space(folder, unknown);
  if (unknown) return std::nullopt;
  return space.available;
}

void demand_space(const Path& folder, std::uint64_t needed, std::string_view what, FreeBytes free) {
  const std::optional<std::uint64_t> left = free(folder);
  if (!left || *left >= needed) return;
  throw UserError(fmt::format("{}: {} needs {}, the file system has {} left", folder.string(), what, format_bytes(needed),
                              format_bytes(*left)),
                  "free some space, or choose a folder on another file system");
}

}  // namespace lockstep::io
