#pragma once

// Writes a token file, and its loss mask where it has one, that take their places only when they are whole.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/token_description.h"
#include "io/file.h"
#include "io/sha256.h"

namespace lockstep::data {

/// The ids as a file of `format` holds them, in `bytes`, whose memory is used again.
void pack(std::span<const std::int32_t> ids, const TokenFormat& format, std::vector<std::byte>& bytes);

class TokenWriter {
 public:
  /// Throws UserError when the file cannot be made.
  explicit TokenWriter(const io::Path& path) : path_(path), tokens_(path) {}

  /// Gives the tokens to come a mask. It is called before any is appended.
  void begin_mask();
  /// Appends packed tokens that came from `text_bytes` of text; `mask` has a byte for each where there is one.
  void append(std::span<const std::byte> packed, std::int64_t tokens, std::size_t text_bytes,
              std::span<const std::uint8_t> mask = {});
  std::int64_t tokens() const { return facts_.tokens; }
  std::int64_t text_bytes() const { return facts_.text_bytes; }
  /// How many of tokens() are taught.
  std::int64_t targets() const { return facts_.mask ? facts_.mask->targets : facts_.tokens; }
  /// Returns when the bytes are on the device: after it, commit() has little left that could fail.
  void sync();
  /// Opens what was written, while it is not in its place.
  TokenFile open(const TokenFormat& format);
  /// Puts the files into their places. Once.
  TokenFileFacts commit();

 private:
  struct Hashed {
    explicit Hashed(const io::Path& path) : file(path) {}
    void append(std::span<const std::byte> more);
    io::Replacement file;
    io::Sha256 hash;
    std::uint64_t bytes = 0;
  };

  io::Path path_;
  Hashed tokens_;
  std::optional<Hashed> mask_;
  TokenFileFacts facts_;
};

}  // namespace lockstep::data
