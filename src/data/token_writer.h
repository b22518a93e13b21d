#pragma once

// Writes a token file that takes its place only when it is whole.

#include <cstddef>
#include <cstdint>
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
  explicit TokenWriter(const io::Path& path) : name_(path.filename().string()), file_(path) {}

  /// Packed tokens that came from `text_bytes` of text.
  void append(std::span<const std::byte> packed, std::int64_t tokens, std::size_t text_bytes);
  std::int64_t tokens() const { return facts_.tokens; }
  /// Where the tokens are until commit().
  const io::Path& path() { return file_.file().path(); }
  /// Returns when the bytes are on the device: after it, commit() has little left that could fail.
  void sync() { file_.file().sync(); }
  /// Puts the file into its place. Once.
  TokenFileFacts commit();

 private:
  std::string name_;
  io::Replacement file_;
  io::Sha256 hash_;
  std::uint64_t bytes_ = 0;
  TokenFileFacts facts_;
};

}  // namespace lockstep::data
