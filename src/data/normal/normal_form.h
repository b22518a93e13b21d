#pragma once

// Unicode's normalisation forms: C and KC composed, D and KD not; K also replaces what is merely compatible.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep::data::normal {

enum class Form : std::uint8_t { c, d, kc, kd };

class NormalForm {
 public:
  explicit NormalForm(Form form);
  /// A text becomes at most so many times as long.
  std::size_t most_growth() const { return compatible_.empty() ? 3 : 11; }
  /// The bytes that a character becomes at most.
  std::size_t longest() const { return compatible_.empty() ? 12 : 36; }
  /// The text in the form: `text` itself when it is already, else `memory`, which then holds it. Bytes that are not valid UTF-8
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

  bool composes_;
  std::vector<bool> acts_;  // by code point: may change, or change what stands before it
  std::unordered_map<std::uint64_t, char32_t> pairs_;
  std::unordered_map<char32_t, std::u32string> compatible_;  // what the form KD has for a character; empty: of C and D
};

}  // namespace lockstep::data::normal
