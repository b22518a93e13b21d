#pragma once

// A stream that can be read only once, kept in a file so that it can be read twice.

#include <string>

#include "io/space.h"
#include "io/stream.h"

namespace lockstep::data {

/// A copy of a stream to its end, as a file that goes when the spool is destroyed.
class Spool {
 public:
  /// `path` is the file to be made, `name` what the stream is called in messages. Throws what reading throws. Throws UserError
  /// when the file system cannot hold the stream and its tokens. That is said before it is full, for a stream may have no end.
  Spool(io::ByteStream& stream, const std::string& name, io::Path path, io::FreeBytes free = io::free_bytes);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;
  const io::Path& path() const { return path_; }

 private:
  io::Path path_;
};

}  // namespace lockstep::data
