#pragma once

// The folder of a job's run, from its first checkpoint on: a run whose folder has gone is not started again from scratch.

#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "io/held_folder.h"

namespace lockstep::launch {

class FolderWatch {
 public:
  /// Looks from here on until `folder` has a checkpoint. Empty: there is no folder to watch.
  explicit FolderWatch(std::string folder);
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;
  /// Throws SystemError where there was a checkpoint, and the folder is gone.
  void demand() const;

 private:
  void look();

  std::string folder_;
  mutable std::mutex mutex_;
  std::unique_ptr<io::HeldFolder> held_;
  std::jthread looks_;  // last: it ends before the rest goes
};

}  // namespace lockstep::launch
