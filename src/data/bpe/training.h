#pragma once

// Training a byte-level BPE: the most frequent pair of neighbours becomes a token, again and again.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "data/bpe/model.h"
#include "data/bpe/words.h"

namespace lockstep::data::bpe {

/// The token of a trained vocabulary that ends a text. Nothing merges into it or out of it.
inline constexpr std::string_view trained_end_of_text = "<|endoftext|>";

/// How often each word occurs in texts: all that training needs to know of them.
class WordCounts {
 public:
  /// Adds the words before, between and behind the ends of texts in `text`.
  void add(const Words& words, std::string_view text);
  /// Takes over what another object counted.
  void add(WordCounts&& other);

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
  };
  using Map = std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>>;
  const Map& words() const { return counts_; }

 private:
  void add_words(const Words& words, std::string_view text);

  Map counts_;
};

/// The size of a vocabulary with the bytes and the end of a text, and no merge.
constexpr std::int64_t smallest_vocabulary = 257;

/// A model of `vocabulary` tokens, at least smallest_vocabulary: the 256 bytes, what is merged, and <|endoftext|> as the last. It
/// has fewer when no two tokens stand beside each other any more. Equally frequent pairs go by their ids, the lower first, so
/// equal counts give equal models. `progress` is called with the number of tokens now and then.
Model train_bpe(const WordCounts& words, Pattern pattern, std::int64_t vocabulary,
                const std::function<void(std::int64_t)>& progress);

}  // namespace lockstep::data::bpe
