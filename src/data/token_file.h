#pragma once

// A file of token ids: little-endian integers, as nanoGPT writes them, behind a header where another program has one
// (data/formats/token_layout.h). A loss mask may lie beside it: one byte a token, 0 where a model is not taught that token,
// else 1.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/file.h"

namespace lockstep::data {

/// How to read the ids of a file.
struct TokenFormat {
  int token_bytes = 2;              ///< 1, 2, 4 or 8; our own files have 2 or 4
  std::int64_t vocabulary = 50304;  ///< ids are below it
  std::uint64_t header_bytes = 0;   ///< before the first

  /// 2 up to 65,536 ids, else 4.
  static int bytes_for(std::int64_t vocabulary) { return vocabulary <= 65536 ? 2 : 4; }
  /// "uint16", "uint32", ...
  std::string dtype() const { return "uint" + std::to_string(8 * token_bytes); }
};

/// Move-only. Reading is as thread-safe as the bytes are: a file's are.
class TokenFile {
 public:
  /// Opens the file. Throws UserError when there is no such file, it is empty, or its size is not a multiple of a token. So it
  /// does when ids at its start are above the vocabulary.
  TokenFile(const std::string& path, TokenFormat format);
  /// Opens what `bytes` reads; `path` names it.
  TokenFile(std::string path, TokenFormat format, std::unique_ptr<io::ByteSource> bytes);

  /// A file that another rank reads: what is known of it is told, and nothing is opened. `mask_path` is empty without a mask. To
  /// read this file is a mistake of the program.
  static TokenFile elsewhere(std::string path, TokenFormat format, std::int64_t tokens, std::string mask_path);

  /// Notes what a Megatron index says of the file.
  void set_documents(std::int64_t documents, std::string index_path);
  std::int64_t documents() const { return documents_; }  ///< 0: not known
  /// Where the Megatron index is; empty without one.
  const std::string& index_path() const { return index_path_; }

  /// Attaches a loss mask; throws UserError when it has not one byte a token.
  void set_mask(std::string path, std::unique_ptr<io::ByteSource> bytes);
  bool masked() const { return mask_ != nullptr; }
  /// Where the mask is; empty without one.
  const std::string& mask_path() const { return mask_path_; }

  const std::string& path() const { return path_; }
  const TokenFormat& format() const { return format_; }
  std::int64_t tokens() const { return static_cast<std::int64_t>(bytes_->size() - format_.header_bytes) / format_.token_bytes; }

  /// Tokens first .. first + ids.size() - 1, which must exist. Throws UserError with the position of an id that is not below
  /// the vocabulary.
  void read(std::int64_t first, std::span<std::int32_t> ids) const;

  /// Reads the whole file; throws UserError as read() does.
  void check_ids() const { static_cast<void>(id_from(format_.vocabulary)); }
  /// The largest id where there are ids from `least` on. Reads the whole file; throws UserError as read() does.
  std::optional<std::int64_t> id_from(std::int64_t least) const;

  /// Sets those of `targets` that are not taught to -1, and returns how many are left. `targets` are the tokens from `first` on.
  /// Throws UserError with the position of a byte that is neither 0 nor 1.
  std::int64_t apply_mask(std::int64_t first, std::span<std::int32_t> targets) const;

 private:
  TokenFile() = default;
  /// Reads ids from `first` on and returns the largest one.
  std::uint64_t read_raw(std::int64_t first, std::span<std::int32_t> ids) const;
  [[noreturn]] void refuse_id(std::int64_t first, std::int64_t count) const;

  std::string path_;
  TokenFormat format_;
  std::unique_ptr<io::ByteSource> bytes_;
  std::string index_path_;
  std::int64_t documents_ = 0;
  std::string mask_path_;
  std::unique_ptr<io::ByteSource> mask_;  // null: every token is taught
};

/// The name of the mask of a token file: "train.mask.bin" of "train.bin".
std::string mask_name(std::string_view token_file);

}  // namespace lockstep::data
