#pragma once

// What a file is, by what is in it and not by its name. One table has all formats that the program reads or knows to refuse. Ids
// and text have no mark of their own: they are what stands in no row (data/formats/token_layout.h, plain_text()).

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "io/compressed/decompressor.h"
#include "io/file.h"

namespace lockstep::data {

/// What is looked at in a file.
struct FileStart {
  std::string bytes;       ///< the first `most` bytes, or all
  std::uint64_t size = 0;  ///< of the file
  std::string end;         ///< its last 8 bytes, or all
  static constexpr std::size_t most = std::size_t{64} << 10;
  bool whole() const { return bytes.size() == size; }
};
FileStart start_of(const io::ByteSource& file);

/// Ids of llm.c: behind a header of 256 int32 that begins with magic, version and count.
struct LlmcTokens {
  std::int32_t magic, version;
  int token_bytes;
  std::int64_t vocabulary;  ///< vocabulary of the models that it is made for
};
constexpr std::uint64_t llmc_header_bytes = 1024;

struct KnownFormat {
  std::string_view what;  ///< "a zip archive"
  bool (*is)(const FileStart& start);
  std::string_view remedy;           ///< what to do with it; {file} is its path, as a shell reads it
  io::Compression compression = {};  ///< one that is unpacked where text is read
  const LlmcTokens* ids = nullptr;   ///< ids that are read
};

/// The name of the row that `inspect` reads.
inline constexpr std::string_view safetensors_name = "a safetensors file";
/// The row that a file stands in; null: none.
const KnownFormat* known_format(const FileStart& start);
/// What is told of a file in that row, where it is to be another; `name` is what the user calls it.
Problem refused(const KnownFormat& format, const std::string& name);

/// Whether bytes are text as people store it: no zero byte, and almost all of them UTF-8 without control characters.
struct PlainText {
  std::size_t zero_at = std::string_view::npos;  ///< the first zero byte
  std::size_t strange = 0;                       ///< bytes that are no UTF-8, or control characters
  std::size_t of = 0;                            ///< bytes that were looked at
  bool zero() const { return zero_at != std::string_view::npos; }
  /// Whether strange bytes are more than a tenth: no text in another encoding of the Latin alphabet has so many.
  bool in_bulk() const { return strange > 8 && strange * 10 > of; }
};
PlainText plain_text(std::string_view bytes);

}  // namespace lockstep::data
