#pragma once

// An open folder, which is known by itself and not by its path. The path may come to name another folder, or none.

#include <optional>

#include "io/file.h"

namespace lockstep::io {

class HeldFolder {
 public:
  /// Throws as File does.
  explicit HeldFolder(Path path);
  ~HeldFolder();
  HeldFolder(const HeldFolder&) = delete;
  HeldFolder& operator=(const HeldFolder&) = delete;

  const Path& path() const { return path_; }
  /// Whether the path still names this folder. A path that cannot be asked about counts as unchanged.
  bool in_place() const;
  /// Where the folder is now; nothing when it was removed.
  std::optional<Path> found() const;

 private:
  bool is_at(const Path& path, bool unknown) const;

  Path path_;
  int descriptor_;
};

}  // namespace lockstep::io
