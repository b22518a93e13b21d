#include "app/folder/run_record.h"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "app/folder/manifest.h"
#include "app/published/published_files.h"
#include "app/published/text_habits.h"
#include "app/settings/choices.h"
#include "app/settings/config_file.h"
#include "app/settings/kept_paths.h"
#include "app/settings/pipeline_settings.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

// What the run's file keeps: how the run was begun, and nothing that was asked of this start alone.
RunConfig settings_at_rest(const RunConfig& config, const io::Path& file) {
  RunConfig prepared = config;
  if (std::exchange(prepared.data.file, std::nullopt)) prepared.data.dir = data_folder(config);  // the text may go away
  RunConfig kept = settings::with_whole_paths(prepared);
  kept.train.log_interval = config.train.asked_log_interval.value_or(config.train.log_interval);
  kept.train.global_batch = RunConfig().train.global_batch;
  RunConfig before;
  const bool resumes = config.train.init_from.kind == InitFrom::Kind::resume;
  if (resumes && io::exists(file) && read_config_file(file, before).empty()) kept.train.init_from = before.train.init_from;
  return kept;
}

// A resume goes on with the table, whatever becomes of the file that it came from.
void keep_schedule(const RunConfig& config, const io::Path& folder) {
  const std::optional<io::Path> table = schedule_file(config.parallel.schedule);
  if (!table) return;
  const std::string text = read_schedule(*table);
  const io::Path kept = folder / settings::kept_schedule;
  if (!io::exists(kept) || io::read_file(kept) != text) io::replace_file(kept, text);
}

}  // namespace

void replace_private_file(const io::Path& path, std::string_view content) {
  using std::filesystem::perms;
  io::Replacement replacement(path);
  std::filesystem::permissions(replacement.file().path(), perms::owner_read | perms::owner_write);
  replacement.file().write_at(0, std::as_bytes(std::span(content)));
  replacement.commit();
}

std::string name_of_run(const RunConfig& config, const Start& start, const io::Path& folder) {
  const bool resumed = start.resumes && start.checkpoint->manifest.run.is_object();
  const Json* before = resumed ? start.checkpoint->manifest.run.find("name") : nullptr;
  if (config.log.name) return *config.log.name;
  if (before != nullptr && before->is_string()) return before->string();
  return io::whole_path(folder).filename().string();
}

void write_run_files(const RunConfig& config, const std::string& name, const io::Path& folder, const Arguments& arguments) {
  std::vector<std::string> command_line{"lockstep", "train"};
  command_line.insert(command_line.end(), arguments.begin(), arguments.end());
  const io::Path file = folder / "config.toml";
  keep_schedule(config, folder);
  io::replace_file(file, to_toml(settings_at_rest(config, file)));
  RunConfig named = config;
  named.log.name = name;
  io::replace_file(folder / "config.json", to_json(named).dump(4) + "\n");
  Json manifest = environment_manifest(command_line);
  manifest.set("run_folder", io::whole_path(folder).string());
  replace_private_file(folder / "environment.json", manifest.dump(2) + "\n");
}

std::string origin_of(const Json& run) {
  const Json* value = &run;
  for (const char* key : {"config", "train", "init_from"}) {
    value = value->is_object() ? value->find(key) : nullptr;
    if (value == nullptr) return "";
  }
  const bool folder = value->is_string() && Form<InitFrom>::read(value->string())->kind == InitFrom::Kind::folder;
  return folder ? value->string() : "";
}

Json carried(const RunConfig& config, const Start& start, const std::string& name, const data::Corpus& corpus,
             const Json& published, const Json& identity) {
  Json run;
  run.set("name", name);
  RunConfig begun = config;
  const std::string origin = start.resumes ? origin_of(start.checkpoint->manifest.run) : "";
  if (!origin.empty()) begun.train.init_from = {InitFrom::Kind::folder, origin};
  run.set("config", to_json(begun));
  run.set("data_folder", std::filesystem::absolute(data_folder(config)).string());
  if (corpus.tokenizer) run.set("tokenizer", corpus.tokenizer->describe());
  set_taught_ends(run, corpus);
  if (published.is_object()) run.set(published_key, published);
  if (identity.is_object()) {
    for (const auto& [name_of_fact, fact] : identity.object()) run.set(name_of_fact, fact);
  }
  return run;
}

}  // namespace lockstep::app
