#pragma once

// SentencePiece's Unigram: of all the ways to cut a word into tokens, the one whose scores have the largest sum.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/bpe/model.h"

namespace lockstep::data::bpe {

/// The memory of a search, used again. One a thread.
struct UnigramScratch {
  struct Node {
    double score;
    std::size_t begin;
    std::int32_t id;
  };
  std::vector<Node> best;  // by the place where a token ends
  std::vector<Node> path;  // from the last to the first
};

class Unigram {
 public:
  explicit Unigram(const Model& model);
  /// Writes the ids of `word`, at most word.size(), and returns their number. Characters that the vocabulary lacks, and has no
  /// token for, are left out and appended to `unknown`.
  std::size_t encode(std::string_view word, std::int32_t* ids, UnigramScratch& scratch, std::string& unknown) const;

 private:
  struct Token {
    std::string text;
    std::int32_t id;
    double score;
  };
  struct Range {
    std::size_t begin, end;
  };
  // Narrows `range`, whose tokens have the same first `length` bytes, to those with `byte` behind them.
  Range narrowed(Range range, std::size_t length, char byte) const;
  // Calls take(token) for each token that `text` begins with, the shortest first.
  template <class Take>
  void prefixes(std::string_view text, const Take& take) const;
  std::int32_t* unknown_ids(std::string_view text, std::int32_t* ids, std::string& unknown) const;

  std::vector<Token> tokens_;  // by text
  std::array<Range, 256> starts_{};
  std::array<std::int32_t, 256> bytes_;
  std::int32_t unknown_;
  double unknown_score_;
};

}  // namespace lockstep::data::bpe
