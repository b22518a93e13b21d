#pragma once

// The text that is prepared: a file, or the text files of a folder in the order of their paths, read as one stream in pieces
// that many threads can work on.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "data/tokenizer.h"
#include "io/file.h"

namespace lockstep::data {

struct TextFile {
  io::Path path;
  std::string name;  ///< for messages
  std::uint64_t bytes = 0;
};

struct SkippedFile {
  std::string name;    ///< relative to the folder
  std::string reason;  ///< "binary (a zero byte)"
};

/// What is in a text's files.
enum class TextFormat : std::uint8_t {
  automatic,  ///< JSONL where the names end in .jsonl
  text,       ///< text as it is
  jsonl       ///< a document a line (text/documents.h)
};

struct TextSource {
  std::vector<TextFile> files;
  std::vector<SkippedFile> skipped;
  TextFormat format = TextFormat::text;  ///< never automatic
  std::uint64_t bytes() const;
};

/// One file.
TextSource file_source(const io::Path& path, std::string name, TextFormat format);
/// The text files in `folder` and below, without hidden ones, `except` (a folder) and those met before by another name; what
/// starts with bytes that are no text (a zero byte, or no UTF-8 when `utf8`) is skipped, and of JSONL what is not named so.
/// Throws UserError when nothing is left, or the format is to be found and some files are JSONL and some not.
TextSource folder_source(const io::Path& folder, TextFormat format, bool utf8, const io::Path& except);
/// One line a reason.
void log_skipped(const TextSource& source, Log& log);

/// Where a piece may end.
enum class Cut : std::uint8_t {
  character,  ///< before a byte that starts a character: characters are whole where the text is valid
  line,       ///< behind a line feed
  word  ///< where the tokenizer finds the same tokens in the pieces as in the whole; as above in a megabyte without such a place
};

/// The stream cut into pieces of about `piece_bytes`. Thread-safe.
class TextPieces {
 public:
  static constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20;
  static constexpr std::uint64_t longest_line = std::uint64_t{64} << 20;

  /// `tokenizer`: says where words may be cut; null: one that is trained on the text.
  explicit TextPieces(const TextSource& source, Cut cut = Cut::character, std::uint64_t bytes_a_piece = piece_bytes,
                      const Tokenizer* tokenizer = nullptr);

  std::size_t count() const { return ranges_.size(); }
  struct Piece {
    std::string_view text;
    const TextFile* file;
    std::uint64_t begin;  ///< of the text in its file
  };
  /// Reads piece `index` into `buffer`, which grows once. Throws UserError when the file became shorter, or a line that has to be
  /// whole is longer than `longest_line`.
  Piece read(std::size_t index, std::string& buffer) const;

 private:
  struct Range {
    std::size_t file;
    std::uint64_t begin, end;  // nominal: a cut moves on to the next place that its rule allows
  };
  std::uint64_t cut_behind(const io::File& file, std::uint64_t size, std::uint64_t nominal) const;
  std::uint64_t line_behind(const io::File& file, std::uint64_t size, std::uint64_t nominal) const;
  const TextSource& source_;
  Cut cut_;
  std::uint64_t bytes_a_piece_;
  const Tokenizer* tokenizer_;
  std::vector<Range> ranges_;
};

}  // namespace lockstep::data
