#pragma once

// A byte-level BPE as it is read from files, before it is made fast.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/bpe/words.h"

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
  Pattern pattern = Pattern::gpt2;
  bool nfc = false;                       ///< texts are brought to Unicode's form C first
  bool whole_words = false;               ///< a word that is a token is that token, whatever the merges say ("ignore_merges")
  std::vector<std::string> tokens;        ///< bytes by id; empty for an id that nothing has
  std::vector<bool> words;                ///< by id: with whole_words, a word may be this token
  std::vector<Merge> merges;              ///< in the order of their ranks
  std::array<std::int32_t, 256> bytes{};  ///< id of each single byte
  std::vector<AddedToken> added;
};

/// Builds a Model of a vocabulary file's entries and checks them against each other. Errors are UserErrors that name `what`.
class ModelBuilder {
 public:
  /// Of a file with so many tokens: ids far above that are refused before memory is taken for them.
  ModelBuilder(std::string what, std::size_t tokens);

  /// `text` in the alphabet of byte_alphabet.h, or as it is when it holds other characters.
  void token(std::string_view text, std::int64_t id);
  /// The second place of a pair that stands twice counts.
  void merge(std::string_view left, std::string_view right);
  /// After all tokens. One without content is passed over.
  void added(std::int64_t id, AddedToken token);
  /// Throws when a byte has no token.
  Model take();

 private:
  std::int32_t id_of(std::string_view text, std::string_view left, std::string_view right) const;
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
