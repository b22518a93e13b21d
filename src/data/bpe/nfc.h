#pragma once

// Unicode's normalisation form C.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep::data::bpe {

class Nfc {
 public:
  /// A text becomes at most so many times as long.
  static constexpr std::size_t most_growth = 3;

  Nfc();
  /// The text in form C: `text` itself when it is already, else `memory`, which then holds it. Bytes that are not valid UTF-8
  /// stay, and what is beside them is normalised by itself.
  std::string_view operator()(std::string_view text, std::string& memory) const;

 private:
  struct Mark {
    char32_t point;
    std::uint8_t combining_class;  // 0: a starter
    std::size_t place = 0;         // among those that are sorted: equal classes keep their order
  };
  void decompose(char32_t point, std::vector<Mark>& out) const;
  char32_t composed(char32_t first, char32_t second) const;
  void compose(std::vector<Mark>& marks) const;
  bool quiet(std::string_view text) const;
  std::string_view normal(std::string_view part, std::vector<Mark>& marks, std::string& memory) const;

  std::vector<bool> acts_;  // by code point: may change, or change what stands before it
  std::unordered_map<std::uint64_t, char32_t> pairs_;
};

}  // namespace lockstep::data::bpe
