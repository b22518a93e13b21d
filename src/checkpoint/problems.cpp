#include "checkpoint/problems.h"

#include <fmt/format.h>

namespace lockstep::checkpoint {

void throw_first(std::vector<Problem> problems, std::string_view of) {
  constexpr std::size_t most = 5;
  if (problems.size() > most) {
    problems[most] = {fmt::format("... and {} more {}", problems.size() - most, of), ""};
    problems.resize(most + 1);
  }
  throw UserError(std::move(problems));
}

std::string use_another(const std::filesystem::path& folder) {
  return fmt::format(
      "use another checkpoint of the run (lockstep inspect RUN lists them); to resume from the one before, move {} away",
      folder.string());
}

std::string fault_of_files(const std::filesystem::path& folder, const Manifest& manifest) {
  for (const StoredFile& file : manifest.files) {
    std::error_code failed;
    const std::filesystem::path path = folder / file.name;
    const std::uint64_t size = std::filesystem::file_size(path, failed);
    if (failed) return fmt::format("{}: {}", path.string(), failed.message());
    if (size != file.bytes)
      return fmt::format("{}: the file has {} bytes, its checkpoint was written with {}: truncated or replaced", path.string(),
                         size, file.bytes);
  }
  return {};
}

}  // namespace lockstep::checkpoint
