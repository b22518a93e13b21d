#pragma once

// Folders that appear whole or not at all, and that vanish at once.

#include "io/file.h"

namespace lockstep::io {

/// A folder that takes the place of `path` only at commit(); until then it is `.NAME.partial` beside it, removed when never
/// committed. A process that dies leaves it behind: settle_folders() finds it.
class NewFolder {
 public:
  /// The folder above must be there. Throws UserError when another living process is making the same folder.
  explicit NewFolder(Path path);
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder();

  /// Where to put the content until commit().
  const Path& path() const { return partial_; }
  /// Where another process that makes the folder `path` puts the content until its commit().
  static Path path_until_commit(const Path& path);
  /// The path of an older folder for a moment while it is replaced. It is used on file systems that cannot exchange two folders
  /// in one step (such as NFS). A process that dies in that moment leaves the folder there. Who looks for `path` and finds it
  /// gone looks here.
  static Path path_while_replaced(const Path& path);
  /// Syncs the folder (its files are the caller's to sync), gives it its name and syncs the folder above. An older folder
  /// of that name is deleted after that. Once.
  void commit();

 private:
  bool try_make();
  void replace();

  Path path_, partial_;
  int lock_ = -1;
  bool committed_ = false;
};

/// Deletes from `parent` what dead processes left half made or half deleted. A folder that a dead process was about to replace
/// gets its name back. A living process holds a lock, and its folders stay.
void settle_folders(const Path& parent);

/// Deletes a folder with all it contains. When interrupted, nothing of it is left under its name.
void remove_folder(const Path& path);

}  // namespace lockstep::io
