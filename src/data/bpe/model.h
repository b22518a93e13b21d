#pragma once

// A BPE or a Unigram as it is read from files, before it is made fast.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/bpe/rules.h"

namespace lockstep::data::bpe {

/// Vocabulary files are at most so large; those of a quarter of a million tokens have some 35 MB.
inline constexpr std::uint64_t most_file_bytes = std::uint64_t{128} << 20;

struct Merge {
  std::int32_t left = 0, right = 0, merged = 0;
};

/// A token that is found in a text as a whole, before anything else.
struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool special = true;
  bool normalized = false;   ///< found in the normalised text, and only where no token that is not normalized was found
  bool single_word = false;  ///< not found beside a character of a word
  bool lstrip = false;       ///< takes the white space before it
  bool rstrip = false;       ///< takes the white space behind it
};

struct Model {
  std::vector<NormalRule> normalizer;
  std::vector<SplitRule> splits{{}};      ///< a vocabulary of ours splits by GPT-2's pattern
  DecodeRule decoder;                     ///< how tokens become text, where the model is not byte-level
  bool byte_level = true;                 ///< merges begin with bytes, else with characters
  bool whole_words = false;               ///< a word that is a token is that token, whatever merges say ("ignore_merges")
  std::vector<std::string> tokens;        ///< by id: bytes, or text where the model is not byte-level; empty: nothing has the id
  std::vector<bool> words;                ///< by id: with whole_words, a word may be this token
  std::vector<double> scores;             ///< by id, of a Unigram; a BPE has none
  std::vector<Merge> merges;              ///< in the order of their ranks
  std::array<std::int32_t, 256> bytes{};  ///< id of each single byte; -1: none
  std::vector<std::int32_t> characters;   ///< by code point: the id of the token of this character alone; -1, or too short: none
  std::int32_t unknown = -1;              ///< id of what the vocabulary does not have; -1: that is left out
  bool fuse_unknown = false;              ///< neighbouring unknown characters are one token
  std::vector<AddedToken> added;
  std::vector<std::int32_t> front;  ///< ids that a text begins with

  /// The pattern that alone splits texts into words of bytes; nothing where there are other steps, but for NFC.
  std::optional<Pattern> only_pattern() const;
};

/// Builds a Model of a vocabulary file's entries and checks them against each other. Errors are UserErrors that name `what`.
class ModelBuilder {
 public:
  /// `tokens`: how many the file has. Ids far above that are refused before memory is taken for them.
  ModelBuilder(std::string what, std::size_t tokens, bool byte_level = true);

  /// A byte-level vocabulary's `text` is in the alphabet of byte_alphabet.h, or as it is when it holds other characters.
  void token(std::string_view text, std::int64_t id);
  /// A pair that stands twice counts at its second place.
  void merge(std::string_view left, std::string_view right);
  /// Is called after all tokens. An added token without content is passed over.
  void added(std::int64_t id, AddedToken token);
  /// The id of a token. Throws when the vocabulary lacks it.
  std::int32_t id_of(std::string_view text, std::string_view use) const;
  /// The finished model. Throws when the vocabulary is byte-level and a byte has no token. `byte_fallback`: in another vocabulary
  /// bytes are "<0x00>" and on.
  Model take(bool byte_fallback = false);

 private:
  std::string& slot(std::int64_t id);

  std::string what_;
  std::int64_t most_ids_;
  Model model_;
  std::unordered_map<std::string, std::int32_t> ids_;      // by text
  std::unordered_map<std::uint64_t, std::size_t> merges_;  // places in model_.merges
  std::unordered_map<std::string, std::size_t> added_;     // places in model_.added
  std::size_t beyond_ = 0;                                 // added tokens that the vocabulary does not have
};

}  // namespace lockstep::data::bpe
