#include "app/folder/runs_in.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>

#include "io/folder_entries.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;
constexpr int deepest = 4;  // a sweep has runs three folders below its own

bool is_file(const io::Path& path) {
  std::error_code unknown;
  return fs::is_regular_file(path, unknown);
}

/// The text with numbers of one length each, so that their order is that of their values.
std::string in_order(const std::string& text) {
  constexpr std::size_t length = 20;
  std::string wide, digits;
  for (const char c : text + '\0') {
    if (c >= '0' && c <= '9') {
      digits += c;
      continue;
    }
    if (!digits.empty()) wide += std::string(length - std::min(length, digits.size()), '0') + digits;
    digits.clear();
    wide += c;
  }
  return wide;
}

void collect(const io::Path& folder, int depth, std::vector<io::Path>& runs) {
  std::error_code unreadable;
  std::vector<io::Path> entries = io::entries_of(folder, unreadable);
  std::ranges::sort(entries, {}, [](const io::Path& entry) { return in_order(entry.filename().string()); });
  for (const io::Path& entry : entries) {
    std::error_code unknown;
    if (entry.filename().string().starts_with('.') || !fs::is_directory(entry, unknown)) continue;
    if (is_file(entry / "config.toml")) {
      if (is_file(entry / "metrics.jsonl")) runs.push_back(entry);
    } else if (depth < deepest) {
      collect(entry, depth + 1, runs);
    }
  }
}

}  // namespace

std::vector<io::Path> runs_in(const io::Path& folder) {
  if (is_file(folder / "config.toml")) return {folder};
  std::vector<io::Path> runs;
  collect(folder, 1, runs);
  return runs;
}

}  // namespace lockstep::app
