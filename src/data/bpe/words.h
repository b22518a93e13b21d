#pragma once

// Pre-tokenisation: a text falls into words, inside which tokens are merged. What published tokenizers say as regular
// expressions is written out here as code.

#include <cstdint>
#include <optional>
#include <string_view>

#include "data/bpe/characters.h"

namespace lockstep::data::bpe {

enum class Pattern : std::uint8_t {
  gpt2,    ///< '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  llama3,  ///< (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
           ///< ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  qwen2    ///< llama3 with \p{N} alone
};

/// The regular expression as tokenizer.json files hold it.
std::string_view regex_of(Pattern pattern);
std::optional<Pattern> pattern_of(std::string_view regex);

class Words {
 public:
  explicit Words(Pattern pattern) : pattern_(pattern) {}
  Pattern pattern() const { return pattern_; }

  /// The end of the word that starts at `at`, at < text.size(); the words of a text are found one after another from 0 on.
  std::size_t end(std::string_view text, std::size_t at) const;

 private:
  std::size_t gpt2_end(std::string_view text, std::size_t at) const;
  std::size_t llama_end(std::string_view text, std::size_t at) const;
  std::size_t spaces_end(std::string_view text, std::size_t at) const;

  Pattern pattern_;
  Characters characters_;
};

/// The first place from `from` on where a text may be cut: its parts have the words of the whole. Every pattern ends a word there
/// whatever follows, and starts one whatever went before. It is between an ASCII letter or digit and a blank or a line feed.
/// Without such a place the result is npos.
std::size_t word_boundary(std::string_view text, std::size_t from);

}  // namespace lockstep::data::bpe
