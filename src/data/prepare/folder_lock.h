#pragma once

// Who prepares a folder of tokens: one process at a time.

#include "base/log.h"
#include "io/file.h"

namespace lockstep::data {

class FolderLock {
 public:
  /// Makes the folder where there is none, for as long as nothing is in it. Waits for another process that has the lock, and says
  /// so, at most `seconds`; then throws UserError. Where the file system has no locks it is held by name only.
  FolderLock(const io::Path& folder, double seconds, Log& log);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  const io::Path& folder() const { return folder_; }
  /// Whether no other process can have it: false where the file system has no locks.
  bool exclusive() const { return exclusive_; }

 private:
  io::Path folder_;
  int descriptor_ = -1;
  bool made_, exclusive_ = false;
};

}  // namespace lockstep::data
