#pragma once

// A file of token ids: raw little-endian uint16 or uint32 without a header, as nanoGPT writes them.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/file.h"

namespace lockstep::data {

/// How to read the ids of a file.
struct TokenFormat {
  int token_bytes = 2;              ///< 2 (uint16) or 4 (uint32)
  std::int64_t vocabulary = 50304;  ///< ids are below it

  /// 2 up to 65,536 ids, else 4.
  static int bytes_for(std::int64_t vocabulary) { return vocabulary <= 65536 ? 2 : 4; }
  /// "uint16", "uint32".
  std::string dtype() const { return token_bytes == 2 ? "uint16" : "uint32"; }
};

/// Move-only. Reading is as thread-safe as the bytes are: mapped ones are.
class TokenFile {
 public:
  /// Maps the file. Throws UserError when there is no such file, it is empty, its size is not a multiple of a token, it is
  /// plainly something else (another program's header, ids above the vocabulary at its start).
  TokenFile(const std::string& path, TokenFormat format);
  /// The same of bytes that somebody else reads; `path` names them.
  TokenFile(std::string path, TokenFormat format, std::unique_ptr<io::ByteSource> bytes);

  const std::string& path() const { return path_; }
  const TokenFormat& format() const { return format_; }
  std::int64_t tokens() const { return static_cast<std::int64_t>(bytes_->size()) / format_.token_bytes; }

  /// Tokens first .. first + ids.size() - 1, which must exist. Throws UserError with the position of an id that is not below
  /// the vocabulary.
  void read(std::int64_t first, std::span<std::int32_t> ids) const;

 private:
  void check_start() const;

  std::string path_;
  TokenFormat format_;
  std::unique_ptr<io::ByteSource> bytes_;
};

}  // namespace lockstep::data
