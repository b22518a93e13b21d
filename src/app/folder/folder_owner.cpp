#include "app/folder/folder_owner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "app/settings/config_file.h"
#include "base/json.h"
#include "checkpoint/huggingface/folder.h"
#include "checkpoint/manifest.h"
#include "data/token_description.h"
#include "io/folder_entries.h"

namespace lockstep::app {
namespace fs = std::filesystem;
namespace {

bool there(const io::Path& path) {
  std::error_code unknown;
  return fs::exists(path, unknown);
}

bool says(const io::Path& file, std::string_view text) { return first_bytes(file).find(text) != std::string::npos; }

// A copy of a run's settings alone makes no run.
bool is_run(const io::Path& folder) {
  return says(folder / "run.lock", "\"process_space\"") ||
         (there(folder / "environment.json") && first_bytes(folder / "config.toml").starts_with(settings_file_start));
}

bool is_data(const io::Path& folder) {
  return says(data::described_path(folder, data::description_file), data::description_format) ||
         (there(folder / "train.bin") && there(folder / "val.bin"));
}

bool is_model(const io::Path& folder) {
  namespace names = checkpoint::huggingface;
  return there(folder / names::config_file) && (there(folder / names::weights_file) || there(folder / names::index_file));
}

bool is_inside(const io::Path& path, const io::Path& folder) {
  const auto [in_folder, in_path] = std::ranges::mismatch(folder, path);
  return in_folder == folder.end();
}

io::Path without_links(const io::Path& path) {
  std::error_code unknown;
  const io::Path whole = io::whole_path(path), found = fs::weakly_canonical(whole, unknown);
  return unknown ? whole : found;
}

std::vector<Problem> check_above(const io::Path& path, const std::string& typed, const std::string& remedy) {
  std::error_code unknown;
  const io::Path here = fs::current_path(unknown);
  for (io::Path above = path.parent_path(); above != above.root_path(); above = above.parent_path()) {
    const FolderOwner owner = owner_of(above);
    const bool may_hold_others = owner == FolderOwner::data || owner == FolderOwner::model;
    if (owner == FolderOwner::nobody || owner == FolderOwner::sweep || (may_hold_others && is_inside(here, above))) continue;
    return {{fmt::format("{}: it would lie in {}, which is {}", typed, above.string(), name_of(owner)), remedy}};
  }
  return {};
}

// A folder of runs or texts would become a run, or a text, in which no other has a place.
std::vector<Problem> check_below(const io::Path& path, const std::string& typed, const std::string& remedy) {
  std::error_code failed;
  for (const io::Path& entry : io::entries_of(path, failed)) {
    if (entry.filename().string().starts_with('.')) continue;  // what a preparation that died has left, say
    const FolderOwner owner = fs::is_directory(entry, failed) ? owner_of(entry) : FolderOwner::nobody;
    if (owner != FolderOwner::nobody)
      return {{fmt::format("{}: it holds {}, which is {}", typed, entry.string(), name_of(owner)), remedy}};
  }
  return {};
}

// A run whose start was cut short has its settings, and the rest is its own.
std::vector<Problem> check_files_of_run(const io::Path& path, const std::string& typed, const std::string& remedy) {
  std::vector<Problem> problems;
  if (first_bytes(path / "config.toml").starts_with(settings_file_start)) return problems;
  for (const char* name : {"config.toml", "config.json", "environment.json", "resources.json"}) {
    if (there(path / name))
      problems.push_back({fmt::format("{}: a run would replace {}, which no run made", typed, (path / name).string()), remedy});
  }
  return problems;
}

}  // namespace

std::string_view name_of(FolderOwner owner) {
  static constexpr std::array<std::string_view, 6> names{"nobody's",      "a run",   "a checkpoint",
                                                         "prepared text", "a model", "a sweep"};
  return names.at(static_cast<std::size_t>(owner));
}

FolderOwner owner_of(const io::Path& folder) {
  if (says(folder / checkpoint::manifest_file, checkpoint::manifest_format)) return FolderOwner::checkpoint;
  if (is_run(folder)) return FolderOwner::run;
  if (says(folder / "sweep.json", "\"definition\"")) return FolderOwner::sweep;
  if (is_data(folder)) return FolderOwner::data;
  return is_model(folder) ? FolderOwner::model : FolderOwner::nobody;
}

std::vector<Problem> check_place(const io::Path& folder, FolderOwner owner, const std::string& typed, const std::string& remedy) {
  const std::string& text = folder.string();
  if (text.empty()) return {{fmt::format("{}: it names no folder", typed), remedy}};
  if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }))
    return {{fmt::format("the folder {} has control characters in its name", Json(text).dump()), remedy}};
  const io::Path path = without_links(folder);
  if (path == path.root_path()) return {{fmt::format("{}: this is the root of all files", typed), remedy}};
  std::error_code unknown;
  if (there(path) && !fs::is_directory(path, unknown)) return {{fmt::format("{}: it is a file, not a folder", typed), remedy}};
  const FolderOwner found = owner_of(path);
  if (found != FolderOwner::nobody && found != owner)
    return {{fmt::format("{}: this folder is {} already", typed, name_of(found)), remedy}};
  std::vector<Problem> problems = check_above(path, typed, remedy);
  const bool becomes_one = found == FolderOwner::nobody && (owner == FolderOwner::run || owner == FolderOwner::data);
  if (problems.empty() && becomes_one) problems = check_below(path, typed, remedy);
  if (problems.empty() && owner == FolderOwner::run) problems = check_files_of_run(path, typed, remedy);
  return problems;
}

bool is_name_of_run(std::string_view name) {
  constexpr std::array<std::string_view, 11> beginnings{"config.",        "environment.json", "resources.json", "metrics.",
                                                        "wandb-history.", "trace.",           "dump_step_",     "run.lock",
                                                        "schedule.csv",   "log.txt",          "samples."};
  return std::ranges::any_of(beginnings, [&](std::string_view beginning) { return name.starts_with(beginning); });
}

std::string first_bytes(const io::Path& file, std::size_t count) {
  try {
    const io::File open = io::File::open_to_read(file);
    std::string text(std::min<std::uint64_t>(count, open.size()), '\0');
    open.read_at(0, std::as_writable_bytes(std::span(text)));
    return text;
  } catch (const std::runtime_error&) {
    return "";
  }
}

}  // namespace lockstep::app
