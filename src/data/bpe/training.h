#pragma once

// Training a byte-level BPE: the most frequent pair of neighbours becomes a token, again and again.

#include <cstdint>
#include <functional>

#include "data/bpe/model.h"
#include "data/bpe/word_counts.h"

namespace lockstep::data::bpe {

/// The bytes, the end of a text, and no merge.
constexpr std::int64_t smallest_vocabulary = 257;

/// A model of `vocabulary` tokens, at least smallest_vocabulary: the 256 bytes, what is merged, and <|endoftext|> as the last;
/// fewer when no two tokens stand beside each other any more. Of pairs that are equally frequent the one of the lower ids is
/// first, so equal counts give equal models. `progress` is called with the number of tokens now and then.
Model train_bpe(const WordCounts& words, Pattern pattern, std::int64_t vocabulary,
                const std::function<void(std::int64_t)>& progress);

}  // namespace lockstep::data::bpe
