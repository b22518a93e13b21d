#pragma once

// Lower case, character by character, and accents, as tokenizers' Lowercase and StripAccents know them.

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data::normal {

class Letters {
 public:
  Letters();
  /// A text in lower case becomes at most so many times as long.
  static constexpr std::size_t most_growth = 2;

  /// The text without upper case: `text` itself when it has none, else `memory`. Bytes that are not valid UTF-8 stay.
  std::string_view lower_case(std::string_view text, std::string& memory) const;
  /// The same without the characters that are accents; letters that have one built in keep it.
  std::string_view without_accents(std::string_view text, std::string& memory) const;

  char32_t lower(char32_t c) const { return lower_[c]; }

 private:
  template <class Put>
  static std::string_view changed(std::string_view text, std::string& memory, const Put& put);

  std::vector<char32_t> lower_;  // by code point
  std::vector<bool> accents_;
};

}  // namespace lockstep::data::normal
