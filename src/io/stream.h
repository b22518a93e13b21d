#pragma once

// Bytes that come one behind the other: of files, pipes and standard input. A pipe is waited for, not without end.

#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>

#include "io/file.h"

namespace lockstep::io {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Fills some of `out`, which is not empty, from its start; returns how many bytes, 0 at the end.
  virtual std::size_t read(std::span<std::byte> out) = 0;
};

/// How long a pipe or terminal is waited for, in seconds.
struct Patience {
  double writer = 5;                  ///< for a writer to open a pipe
  std::optional<double> silent = 60;  ///< for bytes, while a writer has it open; none: as long as it takes
};

/// Opens what is at a path without waiting, be it a file or a pipe that nobody has opened to write. Reading throws UserError when
/// the patience is over.
std::unique_ptr<ByteStream> open_stream(const Path& path, Patience patience = {});
/// `file` is not owned.
std::unique_ptr<ByteStream> stream_of(std::FILE* file);

/// Fills `out` as far as the stream reaches; returns how far.
std::size_t read_up_to(ByteStream& stream, std::span<std::byte> out);

}  // namespace lockstep::io
