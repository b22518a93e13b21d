#include "app/launch/folder_watch.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <utility>

#include "base/error.h"
#include "base/thread.h"
#include "checkpoint/find.h"

namespace lockstep::launch {

FolderWatch::FolderWatch(std::string folder) : folder_(std::move(folder)) {
  if (folder_.empty()) return;
  looks_ = start_thread("folder-watch", [this](const std::stop_token& stop) {
    std::condition_variable_any wake;
    std::unique_lock lock(mutex_);
    for (look(); !held_ && !stop.stop_requested(); look())
      wake.wait_for(lock, stop, std::chrono::milliseconds(200), [] { return false; });
  });
}

void FolderWatch::look() {
  try {
    if (checkpoint::has_checkpoints(folder_)) held_ = std::make_unique<io::HeldFolder>(folder_);
  } catch (const std::runtime_error&) {
    held_.reset();  // it is looked for again
  }
}

void FolderWatch::demand() const {
  const std::scoped_lock lock(mutex_);
  if (!held_ || held_->in_place()) return;
  const auto now = held_->found();
  throw SystemError(fmt::format("{}: this folder was {} while the run wrote into it; the run is not started again", folder_,
                                now ? "renamed to " + now->string() : "removed"));
}

}  // namespace lockstep::launch
