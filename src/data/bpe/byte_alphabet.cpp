#include "data/bpe/byte_alphabet.h"

#include <array>

#include "base/text/utf8.h"

namespace lockstep::data::bpe {
namespace {

constexpr char32_t first_other = 0x100;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD && byte <= 0xFF);
}

constexpr std::array<char32_t, 256> characters_of_bytes() {
  std::array<char32_t, 256> characters{};
  char32_t other = first_other;
  for (unsigned byte = 0; byte < 256; ++byte) characters[byte] = stands_for_itself(byte) ? byte : other++;
  return characters;
}

constexpr std::array<char32_t, 256> characters = characters_of_bytes();

// By character below 0x180: its byte, or -1.
constexpr std::array<std::int16_t, 0x180> bytes_of_characters() {
  std::array<std::int16_t, 0x180> bytes{};
  for (std::int16_t& byte : bytes) byte = -1;
  for (unsigned byte = 0; byte < 256; ++byte) bytes[characters[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}

constexpr std::array<std::int16_t, 0x180> bytes = bytes_of_characters();

}  // namespace

std::string to_alphabet(std::string_view text) {
  std::string out;
  for (const char byte : text) append_utf8(out, characters[static_cast<unsigned char>(byte)]);
  return out;
}

std::optional<std::string> from_alphabet(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (point.length == 0 || point.value >= bytes.size() || bytes[point.value] < 0) return std::nullopt;
    out += static_cast<char>(bytes[point.value]);
    at += point.length;
  }
  return out;
}

}  // namespace lockstep::data::bpe
