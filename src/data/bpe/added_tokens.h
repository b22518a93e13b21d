#pragma once

// Where the added tokens of a vocabulary stand in a text: the leftmost first, of those that start together the longest. The rules
// are those of tokenizers 0.23 (tokenizers/src/tokenizer/added_vocabulary.rs), which are not always what one would expect.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "data/bpe/model.h"
#include "data/pattern/character_set.h"

namespace lockstep::data::bpe {

class AddedTokenFinder {
 public:
  /// Throws UserError when two tokens have the same content.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  /// Calls take(part, id) for each token and for what is between them, from left to right. A token's part is empty; text between
  /// tokens has the id -1.
  template <class Take>
  void split(std::string_view text, const Take& take) const {
    std::size_t done = 0;
    for (Found found = find(text, 0); found.token != nullptr; found = find(text, found.end)) {
      if (found.token->single_word && is_part_of_a_word(text, found)) continue;
      const std::size_t begin = found.token->lstrip ? std::max(space_before(text, found.begin), done) : found.begin;
      const std::size_t end = found.token->rstrip ? space_behind(text, found.end) : found.end;
      if (done < begin) take(text.substr(done, begin - done), -1);
      if (begin < end) take(std::string_view(), found.token->id);  // else another one's white space covers it
      done = end;
    }
    if (done < text.size()) take(text.substr(done), -1);
  }

 private:
  struct Found {
    std::size_t begin, end;
    const AddedToken* token;  // null: none
  };
  static constexpr std::uint32_t none = 0xFFFFFFFF;
  Found find(std::string_view text, std::size_t from) const;
  // The longest token up to the `last` one with which a text begins, where none behind that is one.
  std::uint32_t longest_of(std::string_view text, std::uint32_t last) const;
  bool is_part_of_a_word(std::string_view text, const Found& found) const;
  std::size_t space_before(std::string_view text, std::size_t at) const;  // where the white space before a place begins
  std::size_t space_behind(std::string_view text, std::size_t at) const;  // and where that behind it ends

  std::vector<AddedToken> tokens_;           // by their bytes
  std::vector<std::uint32_t> beginnings_;    // by token: the longest other one with which it begins, or itself
  std::array<std::uint32_t, 257> starts_{};  // by first byte: where its tokens begin
  pattern::CharacterSet words_ = pattern::word_characters(), spaces_ = pattern::spaces();
};

/// Where a text may be cut (words.h) when it has these tokens: not where one of them could reach over the cut.
class Boundaries {
 public:
  /// Where may_cut(a, b) is false there is no cut between a letter or digit `a` and `b`, a blank or line feed.
  Boundaries(const std::vector<AddedToken>& tokens, const std::function<bool(char, char)>& may_cut);
  /// The first place from `from` on where the text may be cut, as word_boundary() finds it.
  std::size_t find(std::string_view text, std::size_t from) const;

 private:
  std::array<std::array<bool, 256>, 256> joined_{};  // by the bytes before and behind a cut
};

}  // namespace lockstep::data::bpe
