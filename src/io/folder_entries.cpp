#include "io/folder_entries.h"

namespace lockstep::io {
namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder, std::error_code& failed) {
  std::vector<fs::path> entries;
  do {
    entries.clear();
    for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
      entries.push_back(it->path());
  } while (failed == std::errc::interrupted);
  return entries;
}

}  // namespace lockstep::io
