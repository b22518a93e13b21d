#include "checkpoint/find.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/number_text.h"
#include "checkpoint/problems.h"
#include "comm/agreement.h"
#include "comm/text.h"
#include "data/formats/known_format.h"
#include "io/file.h"
#include "io/folder_entries.h"
#include "io/new_folder.h"

namespace lockstep::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view step_prefix = "step_";

std::optional<std::int64_t> parse_step(std::string_view text) {
  const auto step = number_from<std::int64_t>(text);
  return step && *step >= 0 ? step : std::nullopt;
}

/// N of "step_N".
std::optional<std::int64_t> step_of(std::string_view name) {
  return name.starts_with(step_prefix) ? parse_step(name.substr(step_prefix.size())) : std::nullopt;
}

fs::path checkpoints_of(const fs::path& run) { return run.filename() == checkpoints_folder ? run : run / checkpoints_folder; }

/// Calls use(folder, step) for each step_N of a run, or for what stood there when it was about to be replaced. Where there is no
/// such folder it calls nothing.
template <class Use>
void for_each_step(const fs::path& run, const Use& use) {
  const fs::path folder = checkpoints_of(run);
  std::error_code failed;
  const std::vector<fs::path> entries = io::entries_of(folder, failed);
  const bool absent = failed == std::errc::no_such_file_or_directory || failed == std::errc::not_a_directory;
  if (failed && !absent) io::throw_file_error(failed.value(), "list the checkpoints in", folder);
  const auto has = [&](const fs::path& path) { return std::find(entries.begin(), entries.end(), path) != entries.end(); };
  for (const fs::path& path : entries) {
    const std::string name = path.filename().string();
    if (const auto step = step_of(name)) use(path, *step);
    const auto step = name.starts_with('.') ? step_of(fs::path(name.substr(1)).stem().string()) : std::nullopt;
    const bool replaced = step && path == io::NewFolder::path_while_replaced(folder / folder_name(*step));
    if (replaced && !has(folder / folder_name(*step))) use(path, *step);
  }
}

std::string steps_of(const std::vector<Found>& all) {
  std::string text;
  for (const Found& found : all) text += fmt::format("{}{}", text.empty() ? "" : ", ", found.step);
  return text;
}

[[noreturn]] void nothing_found(const fs::path& path) {
  if (const std::string why = io::why_no_folder(path); !why.empty()) {
    const data::KnownFormat* format =
        fs::is_regular_file(path) ? data::known_format(data::start_of(io::FileBytes(path))) : nullptr;
    throw UserError(
        fmt::format("{}: {}{}", path.string(), why, format != nullptr ? fmt::format(" but {}", format->what) : ""),
        "give the folder of a run, of a checkpoint or of a published model (config.json and *.safetensors), or a GGUF file");
  }
  std::error_code failed;
  std::string content;
  int count = 0;
  for (const fs::path& entry : io::entries_of(path, failed)) {
    if (++count <= 8) content += fmt::format("{}{}", content.empty() ? "" : ", ", entry.filename().string());
  }
  throw UserError(fmt::format("{}: no checkpoint found; a run has them in {}/step_N, this folder {}", path.string(),
                              checkpoints_folder, content.empty() ? "is empty" : "holds " + content),
                  "give the folder of a run that has saved one, or of a checkpoint");
}

Choice choose_step(std::vector<Found>& all, const fs::path& path, std::int64_t step) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Found& f) { return f.step == step; });
  if (found == all.end()) {
    throw UserError(fmt::format("{}: there is no checkpoint of step {}", path.string(), step),
                    fmt::format("there are those of steps {}", steps_of(all)));
  }
  if (!found->manifest) throw UserError(found->fault, use_another(found->folder));
  return {found->folder, std::move(*found->manifest), {}};
}

Choice checkpoint_itself(const fs::path& folder, std::optional<std::int64_t> step) {
  Choice choice{folder, read_manifest(folder), {}};
  if (!step || *step == choice.manifest.step) return choice;
  throw UserError(
      fmt::format("{}: this is the checkpoint of step {}, not of step {}", folder.string(), choice.manifest.step, *step),
      "give the run's folder to choose among its checkpoints");
}

}  // namespace

std::string folder_name(std::int64_t step) { return fmt::format("{}{}", step_prefix, step); }

bool is_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / manifest_file, ignored) && !fs::exists(folder / checkpoints_folder, ignored);
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / manifest_file;
  constexpr std::uint64_t most_bytes = std::uint64_t{32} << 20;  // some 100,000 tensors
  return parse_manifest(io::read_document(path, most_bytes), path.string());
}

bool has_checkpoints(const fs::path& run) {
  bool any = false;
  for_each_step(run, [&](const fs::path& /*folder*/, std::int64_t /*step*/) { any = true; });
  return any;
}

std::vector<Found> list_checkpoints(const fs::path& run) {
  std::vector<Found> all;
  for_each_step(run, [&](const fs::path& folder, std::int64_t step) {
    Found found{folder, step, {}, {}};
    try {
      found.manifest = read_manifest(found.folder);
    } catch (const UserError& error) {
      found.fault = error.problems().front().message;
    }
    all.push_back(std::move(found));
  });
  std::sort(all.begin(), all.end(), [](const Found& a, const Found& b) { return a.step < b.step; });
  return all;
}

std::optional<std::size_t> best_of(const std::vector<std::optional<double>>& losses) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (losses[i] && !std::isnan(*losses[i]) && (!best || *losses[i] < *losses[*best])) best = i;
  }
  return best;
}

Choice choose_checkpoint(const fs::path& path, std::string_view which) {
  const auto step = parse_step(which);
  if (!step && which != "last" && which != "best") {
    throw UserError(fmt::format("\"{}\" does not say which checkpoint", which), "say last, best or the number of a step");
  }
  if (is_checkpoint(path)) return checkpoint_itself(path, step);
  std::vector<Found> all = list_checkpoints(path);
  if (all.empty()) nothing_found(path);
  if (step) return choose_step(all, path, *step);
  Choice choice;
  std::vector<Found> usable;
  for (Found& found : all) {
    if (found.manifest) found.fault = fault_of_files(found.folder, *found.manifest);
    if (found.fault.empty()) {
      usable.push_back(std::move(found));
    } else {
      choice.passed_over.push_back(found.fault);
    }
  }
  if (usable.empty()) {
    throw UserError(fmt::format("{}: every checkpoint is damaged: {}", path.string(), fmt::join(choice.passed_over, "; ")),
                    "restore one from a copy, or start again in another folder");
  }
  std::size_t taken = usable.size() - 1;
  if (which == "best") {
    std::vector<std::optional<double>> losses;
    for (const Found& found : usable) losses.push_back(found.manifest->validation_loss);
    taken = best_of(losses).value_or(taken);
  }
  choice.folder = usable[taken].folder;
  choice.manifest = std::move(*usable[taken].manifest);
  return choice;
}

std::optional<std::int64_t> saved_step(const fs::path& run) {
  if (!has_checkpoints(run)) return std::nullopt;
  return choose_checkpoint(run, "last").manifest.step;
}

Choice choose_checkpoint(comm::Communicator& ranks, const fs::path& path, std::string_view which) {
  Choice choice;
  std::string told;
  comm::together(ranks, [&] {
    if (ranks.rank() != 0) return;
    choice = choose_checkpoint(path, which);
    Json::Array passed_over(choice.passed_over.begin(), choice.passed_over.end());
    told = Json(Json::Object{{"folder", choice.folder.string()},
                             {"manifest", manifest_text(choice.manifest)},
                             {"passed_over", std::move(passed_over)}})
               .dump();
  });
  told = comm::lead_text(ranks, std::move(told));
  if (ranks.rank() == 0) return choice;
  const Json json = Json::parse(told);
  choice.folder = json.at("folder").string();
  choice.manifest = parse_manifest(json.at("manifest").string(), choice.folder.string());
  for (const Json& reason : json.at("passed_over").array()) choice.passed_over.push_back(reason.string());
  return choice;
}

}  // namespace lockstep::checkpoint
