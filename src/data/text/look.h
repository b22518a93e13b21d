#pragma once

// What the start of a file says: whether it is text, and whether that is rows.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "io/compressed/decompressor.h"
#include "io/file.h"

namespace lockstep::data {

/// What is in a text's files.
enum class TextFormat : std::uint8_t {
  automatic,  ///< rows where names say so, or what is in a .json or a stream without a name's ending
  text,       ///< text as it is
  jsonl       ///< a document a row (text/documents.h)
};

/// How a file has its rows.
enum class Rows : std::uint8_t {
  none,   ///< it has none
  lines,  ///< JSONL: one a line
  list    ///< one list in JSON (text/list_rows.h)
};

/// What may be in files.
struct TextRules {
  TextFormat format = TextFormat::automatic;
  bool utf8 = true;     ///< nothing else than UTF-8
  bool binary = false;  ///< any bytes, as they are: no file is looked at
};

/// The most bytes of a character in UTF-8 behind its first.
inline constexpr std::size_t longest_tail = 3;

/// What look_at() says of a file.
struct Look {
  io::Compression compression = io::Compression::none;
  std::string reason = {};  ///< why it is no text, in a few words; empty: it is
  Problem problem = {};     ///< the same where the user has named the file
  Rows rows = Rows::none;
};

/// Throws UserError for what is compressed and damaged. `name`: what the user calls the file.
Look look_at(const io::Path& path, const std::string& name, const TextRules& rules);

}  // namespace lockstep::data
