#pragma once

// What is prepared, in files that can be read twice. Such files stand in place of a pipe, of standard input, of compressed files
// and of lists; others are read as they lie there.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "data/prepare/prepare.h"
#include "data/text/spool.h"
#include "data/tokenizer_choice.h"

namespace lockstep::data {

/// The files of the input; none where it is a pipe. Throws UserError for what is missing, a device, and no text.
TextSource find_text(const PrepareOptions& options, const TextRules& rules, Log& log);

/// Throws UserError for a piece that has a zero byte: it is of no text.
void refuse_zeros(const TextPieces::Piece& piece);

/// A checksum by which a piece is known that is read twice.
std::uint64_t checksum_of(std::string_view text);

/// The least bytes that the tokens of a text take, as far as it is known. Text that is too large is refused by it before it fills
/// the disk. `characters` is 0 as long as they are not counted.
std::uint64_t least_token_bytes(TokenizerChoice::Kind kind, std::uint64_t text_bytes, std::int64_t characters);

/// Files in `folder`, as long as this lives.
class Spools {
 public:
  Spools(const PrepareOptions& options, io::Path folder) : options_(options), folder_(std::move(folder)) {}

  /// The text that comes from a pipe or standard input.
  TextSource stream(const TextRules& rules);
  /// Puts plain files in place of the files of a source out of which no pieces can be cut: compressed ones and lists.
  void unpack(TextSource& source);

 private:
  io::Path keep(io::ByteStream& stream, const std::string& name);

  const PrepareOptions& options_;
  io::Path folder_;
  std::vector<std::unique_ptr<Spool>> spools_;
};

}  // namespace lockstep::data
