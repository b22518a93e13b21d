#pragma once

// SentencePiece's precompiled map of characters: texts that are replaced, found by a double-array trie (Darts, Yata et al. 2007).
// It is used as tokenizers' Precompiled does (its crate spm_precompiled). Clusters of less than six bytes are looked up as a
// whole, other text by characters. Each is replaced by what the shortest known beginning becomes.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/normal/graphemes.h"

namespace lockstep::data::normal {

class Charsmap {
 public:
  /// `base64`: u32 bytes of the trie, its units, and texts that end with a zero. Throws UserError for what is none.
  explicit Charsmap(std::string_view base64);

  /// The text with all that is replaced: `text` itself where nothing is, else `memory`.
  std::string_view operator()(std::string_view text, std::string& memory) const;
  /// So many bytes of the result have a place in the text's front, which has `bytes`. Places are those of tokenizers: what is
  /// removed before all others moves the rest.
  std::size_t front(std::string_view text, std::size_t bytes) const;
  /// A text becomes at most so many times as long as it was.
  std::size_t most_growth() const { return growth_; }
  /// What a character becomes; nothing: it stays.
  std::optional<std::string_view> replacement(std::string_view character) const;
  /// Whether something longer than the character begins with it.
  bool goes_on(std::string_view character) const;

 private:
  /// A place in the trie, and whether a known text ends there.
  struct Node {
    std::size_t at;
    bool ends = false;
  };
  /// The place behind one more byte; nothing: no known text goes on so.
  std::optional<Node> behind(const Node& node, char byte) const;
  Node root() const;
  /// Calls replace(at, length) for each part that may be looked up, until `done`. It returns whether it replaced the part: else
  /// the characters of a cluster follow.
  template <class Replace>
  void each(std::string_view text, const bool& done, const Replace& replace) const;
  void measure();  ///< finds the growth
  std::string_view text_of(const Node& node) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
  std::size_t growth_ = 1;
  std::array<bool, 128> stays_{};  ///< by character of ASCII: it becomes nothing else, if it is a cluster
  Graphemes graphemes_;
};

}  // namespace lockstep::data::normal
