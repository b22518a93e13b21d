#pragma once

#include <string_view>

#include "io/file.h"

namespace lockstep::io {

/// The folder for temporary files (TMPDIR, else /tmp), in which a file can be made. Throws UserError that names it and TMPDIR.
Path temporary_folder();

/// A new folder in temporary_folder(), "lockstep-NAME-" and a number, which is removed with all that is in it.
class TemporaryFolder {
 public:
  /// Throws what temporary_folder() throws, and SystemError.
  explicit TemporaryFolder(std::string_view name);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const Path& path() const { return path_; }

 private:
  Path path_;
};

}  // namespace lockstep::io
