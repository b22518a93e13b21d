#include "data/bpe/word_counts.h"

#include <utility>

namespace lockstep::data::bpe {

void WordCounts::add(const Words& words, std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = words.end(text, at);
    const std::string_view word = text.substr(at, end - at);
    at = end;
    if (const auto found = counts_.find(word); found != counts_.end()) {
      ++found->second;
    } else {
      counts_.emplace(word, 1);
    }
  }
}

void WordCounts::add(WordCounts&& other) {
  if (counts_.empty()) {
    counts_ = std::move(other.counts_);
    return;
  }
  for (auto& [word, count] : other.counts_) counts_[word] += count;
  other.counts_.clear();
}

}  // namespace lockstep::data::bpe
