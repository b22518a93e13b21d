#pragma once

// The ids of words that were met: most words of a text are few. A fixed amount of memory; a new word takes the place of another.

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep::data::bpe {

class WordCache {
 public:
  static constexpr std::size_t longest_word = 24;  ///< bytes
  static constexpr std::size_t most_ids = 8;

  /// What find() looked for and, when it was not there, store() keeps.
  struct Key {
    std::array<std::uint64_t, longest_word / 8> words{};
    std::uint8_t length = 0;
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    Key key;  // length 0: empty
    std::uint8_t count = 0;
    std::array<std::int32_t, most_ids> ids;
  };

  /// The key of a word of at most longest_word bytes.
  static Key key_of(std::string_view word) {
    Key key;
    std::memcpy(key.words.data(), word.data(), word.size());
    key.length = static_cast<std::uint8_t>(word.size());
    return key;
  }
  /// Where the word is or would be.
  Entry& place(const Key& key) { return entries_[hash(key) >> (64 - bits)]; }

 private:
  static constexpr int bits = 15;
  static std::uint64_t hash(const Key& key) {
    constexpr std::uint64_t factor = 0x9E3779B97F4A7C15U;
    std::uint64_t value = key.words[0] * factor;
    value = (value ^ (value >> 32) ^ key.words[1]) * factor;
    value = (value ^ (value >> 32) ^ key.words[2] ^ key.length) * factor;
    return value ^ (value << 21);
  }
  std::vector<Entry> entries_ = std::vector<Entry>(std::size_t{1} << bits);
};

}  // namespace lockstep::data::bpe
