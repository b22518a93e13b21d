#include "app/settings/kept_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "app/settings/pipeline_settings.h"
#include "base/json.h"
#include "base/text/home.h"

namespace lockstep::settings {
namespace fs = std::filesystem;
namespace {

using app::RunConfig;

bool there(const io::Path& path) {
  std::error_code unknown;
  return fs::exists(path, unknown);
}

// The path of a key; nothing where its value is none.
std::optional<io::Path> path_of(const Key& key, const RunConfig& config) {
  const Json value = key.get(config);
  if (!value.is_string() || value.string().empty()) return std::nullopt;
  if (key.name == "parallel.schedule") return app::schedule_file(value.string());
  if (key.name == "train.init_from" && !app::starts_from_folder(config)) return std::nullopt;
  return io::Path(value.string());
}

void set_path(const Key& key, RunConfig& config, const io::Path& path) {
  key.set(config, Json((key.name == "parallel.schedule" ? "file:" : "") + path.string()));
}

// Where the run's folder was when it last started; empty where it does not say.
io::Path former_folder(const io::Path& run) {
  try {
    const Json manifest = Json::parse(io::read_document(run / "environment.json", 64 << 20), "environment.json");
    const Json* folder = manifest.find("run_folder");
    return folder != nullptr && folder->is_string() ? folder->string() : "";
  } catch (const std::exception&) {
    return {};
  }
}

// Switch files come later: of them the folder says whether they were moved.
bool leads_somewhere(const io::Path& path) { return there(path) || there(io::folder_of(path)); }

}  // namespace

std::span<const std::string_view> path_keys() {
  static constexpr std::array<std::string_view, 11> all{
      "data.dir",        "data.file",        "data.root_path", "train.init_from",   "train.ds_config_path", "train.kill_file",
      "train.save_file", "memory.nvme_path", "log.machine",    "parallel.schedule", "adapter.init_from"};
  return all;
}

std::string meant_path(const Key& key, std::string_view text) {
  if (key.name != "log.dir" && std::ranges::count(path_keys(), key.name) == 0) return std::string(text);
  const std::string_view form = key.name == "parallel.schedule" && text.starts_with("file:") ? "file:" : "";
  return std::string(form) + at_home(text.substr(form.size()));
}

RunConfig with_whole_paths(const RunConfig& config) {
  RunConfig kept = config;
  if (!kept.data.dir && !kept.data.root_path) kept.data.root_path = io::folder_of(app::data_folder(kept)).string();
  for (const std::string_view name : path_keys()) {
    const Key& key = *find_key(name);
    if (const std::optional<io::Path> path = path_of(key, kept)) set_path(key, kept, io::whole_path(*path));
  }
  if (kept.log.dir) kept.log.dir = io::whole_path(*kept.log.dir).string();
  return kept;
}

void find_kept_paths(RunConfig& config, const io::Path& run) {
  const io::Path before = former_folder(run), now = io::whole_path(run);
  for (const std::string_view name : path_keys()) {
    const Key& key = *find_key(name);
    const std::optional<io::Path> path = path_of(key, config);
    if (!path || path->is_relative() || before.empty() || leads_somewhere(*path)) continue;
    const io::Path moved = (now / path->lexically_relative(before)).lexically_normal();
    if (leads_somewhere(moved)) set_path(key, config, moved);
  }
  if (config.log.dir) config.log.dir = run.string();
  if (app::schedule_file(config.parallel.schedule) && there(run / kept_schedule))
    config.parallel.schedule = "file:" + (run / kept_schedule).string();
}

std::vector<Problem> check_kept_schedule(const RunConfig& config, const io::Path& run) {
  const std::optional<io::Path> table = app::schedule_file(config.parallel.schedule);
  const io::Path kept = run / kept_schedule;
  if (!table || !there(kept) || !there(*table) || app::read_schedule(*table) == app::read_schedule(kept)) return {};
  return {{fmt::format("parallel.schedule = {}: this is another table than the run began with, {}", config.parallel.schedule,
                       kept.string()),
           "leave it out: the run goes on with its own; for another table from here on, move that file away"}};
}

}  // namespace lockstep::settings
