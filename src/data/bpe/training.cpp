#include "data/bpe/training.h"

#include <algorithm>
#include <queue>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/error.h"

namespace lockstep::data::bpe {
namespace {

struct Pair {
  std::int32_t left, right;
  bool operator==(const Pair&) const = default;
};

struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    const std::uint64_t key = static_cast<std::uint64_t>(pair.left) << 32 | static_cast<std::uint32_t>(pair.right);
    return static_cast<std::size_t>(key * 0x9E3779B97F4A7C15U >> 20);
  }
};

struct Occurrences {
  std::int64_t count = 0;
  std::vector<std::uint32_t> words;  // that have or had the pair, in any order, some twice
};

// A pair and how often it occurred when it was put into the queue.
struct Candidate {
  std::int64_t count;
  Pair pair;
  bool operator<(const Candidate& other) const {
    if (count != other.count) return count < other.count;
    if (pair.left != other.pair.left) return pair.left > other.pair.left;
    return pair.right > other.pair.right;
  }
};

class Training {
 public:
  explicit Training(const WordCounts& counts) {
    for (const auto& [word, count] : counts.words()) {
      if (word.size() < 2) continue;
      words_.push_back({symbols_.size(), word.size(), count});
      for (const char byte : word) symbols_.push_back(static_cast<unsigned char>(byte));
    }
    for (std::size_t byte = 0; byte < 256; ++byte) {
      add_token(std::string(1, static_cast<char>(static_cast<unsigned char>(byte))));
    }
    for (std::size_t word = 0; word < words_.size(); ++word) {
      const std::span<const std::int32_t> ids = symbols(words_[word]);
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) change({ids[i], ids[i + 1]}, words_[word].count, word);
    }
    touched_.clear();
    for (const auto& [pair, occurrences] : pairs_) queue_.push({occurrences.count, pair});
  }

  void run(std::size_t tokens, const std::function<void(std::int64_t)>& progress) {
    constexpr std::size_t now_and_then = 256;
    while (tokens_.size() < tokens && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const auto found = pairs_.find(best.pair);
      if (found == pairs_.end() || found->second.count < 1) continue;
      if (found->second.count != best.count) {  // it occurred more often before
        queue_.push({found->second.count, best.pair});
        continue;
      }
      merge(best.pair);
      if (tokens_.size() % now_and_then == 0) progress(std::ssize(tokens_));
    }
  }

  Model take(Pattern pattern) {
    Model model;
    model.splits = {{.pattern = pattern}};
    model.tokens = std::move(tokens_);
    model.merges = std::move(merges_);
    for (std::size_t byte = 0; byte < 256; ++byte) model.bytes[byte] = static_cast<std::int32_t>(byte);
    model.added.push_back({.id = narrow<std::int32_t>(model.tokens.size()), .content = std::string(trained_end_of_text)});
    model.tokens.push_back(model.added.back().content);
    return model;
  }

 private:
  struct Word {
    std::size_t begin, length;  // in symbols_
    std::int64_t count;
  };

  std::span<std::int32_t> symbols(const Word& word) { return std::span(symbols_).subspan(word.begin, word.length); }

  // Two pairs may spell one token.
  std::int32_t add_token(std::string bytes) {
    const auto [entry, inserted] = ids_.emplace(std::move(bytes), narrow<std::int32_t>(tokens_.size()));
    if (inserted) tokens_.push_back(entry->first);
    return entry->second;
  }

  void change(Pair pair, std::int64_t by, std::size_t word) {
    Occurrences& occurrences = pairs_[pair];
    occurrences.count += by;
    if (by < 0) return;
    const auto index = narrow<std::uint32_t>(word);
    if (occurrences.words.empty() || occurrences.words.back() != index) occurrences.words.push_back(index);
    if (touched_.empty() || touched_.back() != pair) touched_.push_back(pair);
  }

  void merge(Pair pair) {
    const std::int32_t merged =
        add_token(tokens_[static_cast<std::size_t>(pair.left)] + tokens_[static_cast<std::size_t>(pair.right)]);
    if (done_.insert(pair).second) merges_.push_back({pair.left, pair.right, merged});
    const std::vector<std::uint32_t> where = std::move(pairs_.at(pair).words);
    pairs_.at(pair).words.clear();
    touched_.clear();
    for (const std::uint32_t word : where) merge_in(word, pair, merged);
    pairs_.erase(pair);
    std::sort(touched_.begin(), touched_.end(),
              [](const Pair& a, const Pair& b) { return a.left != b.left ? a.left < b.left : a.right < b.right; });
    touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
    for (const Pair& other : touched_) {
      const auto found = pairs_.find(other);
      if (found != pairs_.end() && found->second.count > 0) queue_.push({found->second.count, other});
    }
  }

  void merge_in(std::size_t index, Pair pair, std::int32_t merged) {
    Word& word = words_[index];
    const std::span<std::int32_t> ids = symbols(word);
    std::size_t written = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i + 1 == ids.size() || ids[i] != pair.left || ids[i + 1] != pair.right) {
        ids[written++] = ids[i];
        continue;
      }
      if (written > 0) {
        change({ids[written - 1], pair.left}, -word.count, index);
        change({ids[written - 1], merged}, word.count, index);
      }
      if (i + 2 < ids.size()) {
        change({pair.right, ids[i + 2]}, -word.count, index);
        change({merged, ids[i + 2]}, word.count, index);
      }
      ids[written++] = merged;
      ++i;
    }
    word.length = written;
  }

  std::vector<std::int32_t> symbols_;
  std::vector<Word> words_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::vector<Merge> merges_;
  std::unordered_set<Pair, PairHash> done_;  // a pair may come back when another one spells the same token
  std::unordered_map<Pair, Occurrences, PairHash> pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<Pair> touched_;  // pairs that became more frequent in this merge
};

}  // namespace

void WordCounts::add(const Words& words, std::string_view text) {
  for (std::size_t end = text.find(trained_end_of_text); end != text.npos; end = text.find(trained_end_of_text)) {
    add_words(words, text.substr(0, end));
    text.remove_prefix(end + trained_end_of_text.size());
  }
  add_words(words, text);
}

void WordCounts::add_words(const Words& words, std::string_view text) {
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

Model train_bpe(const WordCounts& words, Pattern pattern, std::int64_t vocabulary,
                const std::function<void(std::int64_t)>& progress) {
  ensure(vocabulary >= smallest_vocabulary, "a vocabulary has every byte and the end of a text");
  Training training(words);
  training.run(static_cast<std::size_t>(vocabulary) - 1, progress);
  return training.take(pattern);
}

}  // namespace lockstep::data::bpe
