#pragma once

// Streams of gzip and zstd, unpacked as they are read, in bounded memory.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "io/stream.h"

namespace lockstep::io {

enum class Compression : std::uint8_t { none, gzip, zstd };

/// "gzip", "zstd".
std::string_view name_of(Compression compression);

/// The unpacked bytes of all members or frames of `packed`, one behind the other. Reading throws UserError, naming `name`, for
/// bytes that are no such stream, are damaged or end too soon.
std::unique_ptr<ByteStream> unpacked(std::unique_ptr<ByteStream> packed, Compression compression, std::string name);

/// A library's part of unpacking.
class Decompressor {
 public:
  virtual ~Decompressor() = default;
  struct Step {
    std::size_t taken = 0, given = 0;
  };
  /// Takes bytes from the start of `in`, gives some to the start of `out`. Either may be none. Throws SystemError with the reason
  /// for what cannot be unpacked.
  virtual Step step(std::span<const std::byte> in, std::span<std::byte> out) = 0;
  /// Whether what was taken ends where a stream may end.
  virtual bool complete() const = 0;
};

std::unique_ptr<Decompressor> make_gzip_decompressor();
std::unique_ptr<Decompressor> make_zstd_decompressor();

}  // namespace lockstep::io
