#pragma once

// A file that grows at its end, such as a log. Appended bytes are written at once, in one write where the system takes them
// whole.

#include <string_view>

#include "io/file.h"

namespace lockstep::io {

class AppendedFile {
 public:
  enum class Open { existing_or_new, new_one };
  /// Throws as File does. With `Open::new_one` it throws, too, where the file is there already.
  explicit AppendedFile(Path path, Open open = Open::existing_or_new);
  ~AppendedFile();
  AppendedFile(AppendedFile&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  AppendedFile& operator=(AppendedFile&&) = delete;

  const Path& path() const { return path_; }
  /// Throws as File::write_at() does; the bytes before the fault stay.
  void append(std::string_view bytes);

 private:
  Path path_;
  int descriptor_;
};

}  // namespace lockstep::io
