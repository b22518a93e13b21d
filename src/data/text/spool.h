#pragma once

// A stream that can be read only once, kept in a file so that it can be read twice.

#include <cstdio>

#include "io/file.h"

namespace lockstep::data {

/// Copies a stream to its end into `<folder>/.standard-input`, which goes when the spool is destroyed.
class Spool {
 public:
  /// `stream` is not owned. Throws SystemError when it cannot be read, UserError when the folder cannot hold it.
  Spool(std::FILE* stream, const io::Path& folder);
  /// The same of a pipe or device.
  Spool(const io::Path& stream, const io::Path& folder);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;
  const io::Path& path() const { return path_; }

 private:
  io::Path path_;
};

}  // namespace lockstep::data
