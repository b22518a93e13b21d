#include "app/start/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "checkpoint/find.h"
#include "comm/agreement.h"
#include "comm/text.h"
#include "io/file.h"
#include "train/report/wandb.h"

namespace lockstep::app {
namespace fs = std::filesystem;
namespace {

constexpr double longest_look = 30;  // seconds until a new file is seen on other hosts

// What rank 0 makes of train.init_from.
std::string settled_start(const std::string& from, const io::Path& folder) {
  const bool has_run = checkpoint::has_checkpoints(folder);
  if (from == "auto") return has_run ? "resume" : "scratch";
  if (from != "resume" && has_run) {
    throw UserError(fmt::format("{} has checkpoints of a run already: a new one would mix with it", folder.string()),
                    "go on with that run: train.init_from=resume; or choose another log.dir or log.name");
  }
  return from;
}

// Where an older run's metrics go: the first name that is free.
fs::path free_name(const fs::path& folder, std::string_view stem) {
  for (int number = 1;; ++number) {
    const fs::path path = folder / fmt::format("{}.{}.jsonl", stem, number);
    if (!fs::exists(fs::symlink_status(path))) return path;
  }
}

// A line is appended in one piece that ends with its line break: one without it was cut off when its writer died.
void cut_torn_line(const fs::path& path, Log& log) {
  const std::string text = io::read_file(path);
  const std::size_t end = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  if (end == text.size()) return;
  io::File file = io::File::open_to_write(path);
  file.resize(end);
  file.sync();
  log.warning(fmt::format("{}: its last line was cut off in the middle and is gone", path.string()));
}

}  // namespace

RunFolder::RunFolder(RunConfig& config, const io::Path& folder, comm::Communicator& world, Log& log) : path_(folder) {
  std::string from = config.train.init_from;
  comm::together(world, [&] {
    if (world.rank() != 0) return;
    lock_ = std::make_unique<RunLock>(folder);
    if (!lock_->warning().empty()) log.warning(lock_->warning());
    from = settled_start(from, folder);
  });
  config.train.init_from = comm::lead_text(world, std::move(from));
  const std::string mark = comm::lead_text(world, RunLock::mark());
  comm::together(world, [&] {
    if (world.rank() != 0) demand_lock(folder, mark, std::min(longest_look, config.comm.timeout / 2));
  });
}

void RunFolder::prepare_metrics(bool resumed, Log& log) const {
  for (const char* file : {"metrics.jsonl", train::wandb_history_file}) prepare_lines(path_ / file, resumed, log);
}

void RunFolder::prepare_lines(const io::Path& path, bool resumed, Log& log) const {
  if (!io::exists(path)) return;
  if (resumed) return cut_torn_line(path, log);
  const fs::path kept = free_name(path_, path.stem().string());
  fs::rename(path, kept);
  io::sync_folder(path_);
  log.warning(fmt::format("{}: the metrics of an earlier run without a checkpoint are kept as {}", path_.string(),
                          kept.filename().string()));
}

}  // namespace lockstep::app
