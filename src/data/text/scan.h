#pragma once

// What is in a text: how many characters, and which.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// Collects the code points of texts. One scan a thread, merged at the end.
class TextScan {
 public:
  struct Result {
    std::int64_t characters = 0;
    std::optional<std::size_t> invalid_at;  ///< first byte that is not UTF-8: the scan stopped there
  };
  Result add(std::string_view text);
  void merge(const TextScan& other);

  /// The distinct characters in order of their code points, as UTF-8.
  std::string characters() const;
  std::int64_t distinct() const;

 private:
  std::vector<std::uint8_t> seen_ = std::vector<std::uint8_t>(0x110000);  // by code point: 1 when met
};

/// The bytes that start a character. In UTF-8 that is the number of code points; the count is defined for any bytes.
std::int64_t count_characters(std::string_view text);
/// Byte offset of character `index` (by the same count); text.size() for the number of characters.
std::size_t character_offset(std::string_view text, std::int64_t index);

}  // namespace lockstep::data
