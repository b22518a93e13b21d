#pragma once

// The safetensors format: 8 bytes of header length, a JSON header (name -> element type, shape, byte range), the elements. This
// file knows headers. The table alone tells where every tensor's bytes lie. So many writers can fill one file at once, and a
// reader takes what it needs. What is read is trusted in nothing: every number is checked first.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/file.h"

namespace lockstep::io {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< the format's name: "F32", "BF16", "I64", ...
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;  ///< of its first byte, from the start of the file
  std::uint64_t bytes = 0;
};

/// Pairs of strings: the format's `__metadata__`.
using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< in the order of their bytes
  SafetensorsMetadata metadata;
  std::uint64_t data_offset = 0;  ///< where the elements start: the header's whole length
  std::uint64_t file_bytes = 0;

  /// The tensor of that name, or null.
  const SafetensorsEntry* find(std::string_view name) const;
  /// The value of a metadata key, or null.
  const std::string* find_metadata(std::string_view key) const;
};

/// Longer headers are refused (the limit of the format's own library).
inline constexpr std::uint64_t max_safetensors_header = 100'000'000;
/// The elements start at a multiple of this.
inline constexpr std::uint64_t safetensors_alignment = 64;

/// Bytes of an element of the format's type; 0 for a type that is not known.
std::size_t safetensors_element_size(std::string_view dtype);

/// Gives every entry its place. Larger element types come first, so that every element is aligned; else the given order stays.
/// Name, dtype and shape of each entry are read. Throws BrokenRule for unknown types and UserError for names that appear twice.
SafetensorsHeader lay_out_safetensors(const std::vector<SafetensorsEntry>& entries, SafetensorsMetadata metadata = {});

/// The header's bytes, data_offset of them, the length in front included. The same table gives the same bytes.
std::string safetensors_header_bytes(const SafetensorsHeader& header);

/// Reads the header of a file of `file_bytes` bytes that starts with `start` (8 bytes and the header at least, or all of the
/// file). Throws UserError naming `path` and the rule, for:
/// - no length, a header longer than the file or the limit, no JSON, unknown types, names that are there twice
/// - sizes that contradict shapes, ranges that overlap, leave holes or lie outside of the file
SafetensorsHeader parse_safetensors(std::span<const std::byte> start, std::uint64_t file_bytes, std::string_view path);

/// Reads the start of a file for parse_safetensors(): its length field and the header. Where the length is not valid, it reads
/// the length field alone.
std::vector<std::byte> read_safetensors_start(const File& file);

}  // namespace lockstep::io
