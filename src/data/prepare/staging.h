#pragma once

// The files of a preparation appear in their folder together, or not at all, whatever else is there.
//
// They are made in ".prepare.XXXXXX", a folder in it. When they are whole, that folder gets the name ".prepared" in one step.
// From then on they are what the folder holds, for readers look there first (described_path()). Then they move up one by one,
// tokens.json last. A process that dies before the step leaves the folder as it was. What a process that dies behind the step
// left there, the next preparation moves.

#include "data/prepare/folder_lock.h"
#include "data/token_description.h"
#include "io/file.h"

namespace lockstep::data {

class Staging {
 public:
  /// Removes what dead preparations left. `lock` is of the folder and outlives this. Throws UserError for files that a
  /// preparation would replace and none has made.
  explicit Staging(const FolderLock& lock);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// The folder where the files are made; others in it go at the commit.
  const io::Path& path() const { return partial_; }
  /// Writes the description of the files, which are there, whole and synced. Then it puts all of them into their places. Files
  /// that the description before names and this one does not are deleted. Once.
  void commit(const TokenDescription& description);

 private:
  io::Path out_, partial_;
  bool committed_ = false;
};

}  // namespace lockstep::data
