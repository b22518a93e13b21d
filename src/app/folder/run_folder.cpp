#include "app/folder/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "app/folder/folder_owner.h"
#include "app/settings/choices.h"
#include "base/error.h"
#include "checkpoint/find.h"
#include "comm/agreement.h"
#include "comm/text.h"
#include "io/file.h"
#include "train/report/metrics_file.h"
#include "train/report/wandb.h"

namespace lockstep::app {
namespace fs = std::filesystem;
namespace {

constexpr double longest_look = 30;  // seconds until a new file is seen on other hosts

// What rank 0 makes of train.init_from.
std::string settled_start(const InitFrom& from, const io::Path& folder) {
  const bool has_run = checkpoint::has_checkpoints(folder);
  if (from.kind == InitFrom::Kind::automatic) return has_run ? "resume" : "scratch";
  if (from.kind != InitFrom::Kind::resume && has_run) {
    throw UserError(fmt::format("{} has checkpoints of a run already: a new one would mix with it", folder.string()),
                    "go on with that run: train.init_from=resume; or choose another log.dir or log.name");
  }
  return from.text;
}

// The first name of the form STEM.N.jsonl that is free.
fs::path free_name(const fs::path& folder, std::string_view stem, std::string_view extension = ".jsonl", int number = 1) {
  for (;; ++number) {
    const fs::path path = folder / fmt::format("{}.{}{}", stem, number, extension);
    if (!fs::exists(fs::symlink_status(path))) return path;
  }
}

// A line is appended in one piece that ends with its line break: one without it was cut off when its writer died.
void cut_torn_line(const fs::path& path, Log& log) {
  const std::string text = io::read_document(path);
  const std::size_t end = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  if (end == text.size()) return;
  io::File file = io::File::open_to_write(path);
  file.resize(end);
  file.sync();
  log.warning(fmt::format("{}: its last line was cut off in the middle and is gone", path.string()));
}

std::vector<Problem> check_folder(const RunConfig& config) {
  if (config.train.init_from.kind == InitFrom::Kind::resume) return {};
  const std::string folder = run_folder(config, "NAME");
  const std::string typed = config.log.dir    ? fmt::format("log.dir = {}", *config.log.dir)
                            : config.log.name ? fmt::format("log.name = {}", *config.log.name)
                                              : fmt::format("the run's folder {}", folder);
  std::vector<Problem> problems = check_place(folder, FolderOwner::run, typed, "say where the run goes: log.dir=runs/NAME");
  const bool goes_on =
      config.train.init_from.kind == InitFrom::Kind::automatic && !problems.empty() && checkpoint::has_checkpoints(folder);
  return goes_on ? std::vector<Problem>() : problems;
}

bool is_written_by_run(const io::Path& file, const io::Path& folder) {
  const io::Path path = io::whole_path(file), run = io::whole_path(folder);
  for (const char* name : {"checkpoints", "tensorboard"}) {
    if (!path.lexically_relative(run / name).empty() && *path.lexically_relative(run / name).begin() != "..") return true;
  }
  return path.parent_path() == run && is_name_of_run(path.filename().string());
}

}  // namespace

std::vector<Problem> check_run_files(const RunConfig& config) {
  std::vector<Problem> problems = check_folder(config);
  const auto there = [](const std::optional<std::string>& file) {
    std::error_code unknown;
    return file && fs::exists(fs::symlink_status(*file, unknown));
  };
  const std::optional<std::string>&kill = config.train.kill_file, &save = config.train.save_file;
  for (const auto& [name, file] : {std::pair("kill", &kill), std::pair("save", &save)}) {
    if (*file && is_written_by_run(**file, run_folder(config, "")))
      problems.push_back({fmt::format("train.{}_file = {}: the run itself writes a file of that name", name, **file),
                          fmt::format("name another file: train.{}_file=runs/{}", name, name)});
  }
  if (kill && save && io::whole_path(*kill) == io::whole_path(*save)) {
    problems.push_back(
        {fmt::format("train.kill_file and train.save_file are one file, {}", *kill), "give each a name of its own"});
  }
  if (there(kill)) {
    problems.push_back(
        {fmt::format("train.kill_file = {}: it is there already, so the run would end before its first step", *kill),
         "delete it if it was meant for an earlier run, or name another file"});
  }
  std::error_code unknown;
  if (there(save) && !fs::is_empty(*save, unknown)) {
    problems.push_back({fmt::format("train.save_file = {}: it is there and not empty; a run deletes its save file", *save),
                        "name a file that is not there, and make it (touch) when the run is to save"});
  }
  return problems;
}

RunFolder::RunFolder(RunConfig& config, const io::Path& folder, comm::Communicator& world, Log& log) : path_(folder) {
  std::string from;
  comm::together(world, [&] {
    if (world.rank() != 0) return;
    lock_ = std::make_unique<RunLock>(folder);
    if (!lock_->warning().empty()) log.warning(lock_->warning());
    from = settled_start(config.train.init_from, folder);
  });
  config.train.init_from = Form<InitFrom>::read(comm::lead_text(world, std::move(from))).value();
  const std::string mark = comm::lead_text(world, RunLock::mark());
  comm::together(world, [&] {
    if (world.rank() != 0) demand_lock(folder, mark, std::min(longest_look, config.comm.timeout / 2));
    held_ = std::make_unique<io::HeldFolder>(folder);
  });
}

io::Path RunFolder::trace_file() const {
  const io::Path first = path_ / "trace.json";
  return fs::exists(fs::symlink_status(first)) ? free_name(path_, "trace", ".json", 2) : first;
}

void RunFolder::demand(Log& log) const {
  if (const std::string warning = lock_->demand(); !warning.empty()) log.warning(warning);
}

void RunFolder::prepare_metrics(bool resumed, Log& log) const {
  for (const char* file : {"metrics.jsonl", train::samples_file, train::wandb_history_file})
    prepare_lines(path_ / file, resumed, log);
}

void RunFolder::prepare_lines(const io::Path& path, bool resumed, Log& log) const {
  if (!io::exists(path)) return;
  if (resumed) return cut_torn_line(path, log);
  if (fs::is_empty(path)) return;
  const fs::path kept = free_name(path_, path.stem().string());
  fs::rename(path, kept);
  io::sync_folder(path_);
  log.warning(fmt::format("{}: the {} of an earlier run without a checkpoint are kept as {}", path_.string(),
                          path.filename() == train::samples_file ? "samples" : "metrics", kept.filename().string()));
}

}  // namespace lockstep::app
