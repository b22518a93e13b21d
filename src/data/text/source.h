#pragma once

// The text that is prepared: a file, or the text files of a folder in the order of their paths. It is read as one stream in
// pieces that many threads can work on. Files of gzip and zstd stand for what is in them.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "data/text/look.h"
#include "data/tokenizer.h"
#include "io/file.h"

namespace lockstep::data {

struct TextFile {
  io::Path path;
  std::string name;  ///< for messages
  std::uint64_t bytes = 0;
  io::Compression compression = io::Compression::none;  ///< what the file itself is
  Rows rows = Rows::none;                               ///< by its name or by what is in it
  /// Whether pieces can be cut out of the file itself.
  bool plain() const { return compression == io::Compression::none && rows != Rows::list; }
  /// What a document of it is called.
  std::string_view unit() const { return rows == Rows::list ? "row" : "line"; }
};

struct SkippedFile {
  std::string name;    ///< relative to the folder
  std::string reason;  ///< "binary (a zero byte)"
};

struct TextSource {
  std::vector<TextFile> files;
  std::vector<SkippedFile> skipped;
  TextFormat format = TextFormat::text;  ///< never automatic
  std::uint64_t bytes() const;
};

/// The source of one file. Throws UserError for what is no text (data/formats/known_format.h), with what to do about it.
TextSource file_source(const io::Path& path, std::string name, const TextRules& rules);
/// The text files in `folder` and below. Hidden ones, `except` (a folder) and those met before by another name are skipped, and
/// what is no text by its start. Where the format is to be found, JSONL that is not named so is skipped, too. The format JSONL
/// skips all else. Throws UserError when nothing is left, or the format is to be found and some files are JSONL and some not.
TextSource folder_source(const io::Path& folder, const TextRules& rules, const io::Path& except);
/// What is in a file: unpacked where it is compressed, a row a line where it is a list.
std::unique_ptr<io::ByteStream> open_text(const TextFile& file);
/// The same of any regular file.
std::unique_ptr<io::ByteStream> open_text(const io::Path& path);
/// Logs what was found and skipped, one line a reason. Warns of files that are named as splits of a data set: they are read as
/// one text.
void log_found(const TextSource& source, Log& log);

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
    std::uint64_t begin;  ///< place of the text in its file
  };
  /// Reads piece `index` into `buffer`, which grows once. Throws UserError when the file became shorter, or a line that has to be
  /// whole is longer than `longest_line`.
  Piece read(std::size_t index, std::string& buffer) const;

 private:
  struct Range {
    std::size_t file;
    std::uint64_t begin, end;  // nominal: a cut moves on to the next place that its rule allows
  };
  std::uint64_t cut_behind(const io::File& file, const TextFile& text, std::uint64_t nominal) const;
  std::uint64_t line_behind(const io::File& file, const TextFile& text, std::uint64_t nominal) const;
  const TextSource& source_;
  Cut cut_;
  std::uint64_t bytes_a_piece_;
  const Tokenizer* tokenizer_;
  std::vector<Range> ranges_;
};

}  // namespace lockstep::data
