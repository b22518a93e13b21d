#pragma once

// The words of a text, inside which a model finds tokens. The steps of a pre-tokenizer follow one another, each on the pieces of
// the last.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/bpe/rules.h"
#include "data/bpe/words.h"
#include "data/pattern/regex.h"

namespace lockstep::data::bpe {

/// The memory of a split, used again. One a thread.
struct SplitScratch {
  pattern::MatchScratch matching;
  std::vector<std::string> texts;  // by rule: what it made of a piece
};

class PreTokenizer {
 public:
  explicit PreTokenizer(std::vector<SplitRule> rules);

  /// Calls take(word) for each word. `front`: so many bytes at its front have the place of a text's first character
  /// (NormalScratch), and pieces that begin there may get a prefix.
  template <class Take>
  void split(std::string_view text, std::size_t front, SplitScratch& scratch, const Take& take) const {
    if (only_words_) {
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = words_.front().end(text, at);
        take(text.substr(at, end - at));
        at = end;
      }
      return;
    }
    scratch.texts.resize(rules_.size() + 1);
    step(0, text, front, scratch, take);
  }

  /// The most ids that an id becomes, and the most that are put before a text, when a blank has `blank` ids. A tokenizer that
  /// prefixes pieces puts the latter before each piece.
  std::size_t growth(std::size_t blank) const { return std::max<std::size_t>(blank, 1); }
  std::size_t prefix(std::size_t blank) const { return blank + (prefix_ ? 1 : 0); }
  std::string_view replacement() const { return replacement_; }  // what stands for a blank; empty: nothing does
  bool prefixes_pieces() const { return rules_.size() > 1; }

  /// What becomes of a place between `a`, a letter or digit, and `b`.
  struct Cut {
    enum class Place : std::uint8_t {
      apart,   ///< a word always ends here: the parts of a text that is cut have the words of the whole
      inside,  ///< the same, but for words that lie on both sides
      other    ///< not known
    };
    Place place;
    char32_t seen;  ///< what the model sees of `b`
  };
  Cut cut(char32_t a, char32_t b) const;

 private:
  static bool parts(const SplitRule& rule, char32_t a, char32_t b);

  template <class Take>
  void step(std::size_t number, std::string_view text, std::size_t front, SplitScratch& scratch, const Take& take) const {
    if (text.empty()) return;
    if (number == rules_.size()) {
      if (alphabet_) text = scratch.texts[number] = bytes_of(text);
      return take(text);
    }
    const SplitRule& rule = rules_[number];
    if (std::string& changed = scratch.texts[number]; change(rule, text, front, changed)) text = changed;
    const auto next = [&](std::string_view piece) {
      const auto before = static_cast<std::size_t>(piece.data() - text.data());
      step(number + 1, piece, front - std::min(front, before), scratch, take);
    };
    switch (rule.kind) {
      case SplitRule::Kind::words:
        for (std::size_t at = 0; at < text.size();) {
          const std::size_t end = words_[number].end(text, at);
          next(text.substr(at, end - at));
          at = end;
        }
        break;
      case SplitRule::Kind::matches:
        by_matches(rule, text, scratch.matching, next);
        break;
      case SplitRule::Kind::metaspace:
        if (!rule.splits) return next(text);
        for (std::size_t at = 0; at < text.size();) {
          const std::size_t end = std::min(text.find(rule.replacement, at + 1), text.size());
          next(text.substr(at, end - at));
          at = end;
        }
        break;
      case SplitRule::Kind::prefix:
      case SplitRule::Kind::alphabet:
        next(text);
    }
  }

  // Joins matches to pieces: a piece grows while what comes joins it.
  template <class Next>
  static void by_matches(const SplitRule& rule, std::string_view text, pattern::MatchScratch& scratch, const Next& next) {
    std::size_t begin = 0, end = 0;
    bool last = false;
    const auto add = [&](std::size_t to, bool match) {
      if (to == end) return;
      match = match != rule.invert;
      if (begin < end && !joins(rule.behavior, last, match)) {
        if (!last || rule.behavior != Behavior::removed) next(text.substr(begin, end - begin));
        begin = end;
      }
      end = to;
      last = match;
    };
    for (pattern::Regex::Found found{}; end < text.size();) {
      found = rule.regex->find(text, end, scratch);
      add(found.begin, false);
      add(found.end, true);
    }
    if (begin < end && (!last || rule.behavior != Behavior::removed)) next(text.substr(begin, end - begin));
  }
  static bool joins(Behavior behavior, bool last, bool match) {
    return (behavior == Behavior::contiguous && last == match) ||
           (behavior == Behavior::merged_with_previous && !last && match) ||
           (behavior == Behavior::merged_with_next && last && !match);
  }
  // What a rule makes of a text and its front before it splits it; false: it changes nothing.
  static bool change(const SplitRule& rule, std::string_view text, std::size_t& front, std::string& changed);
  static std::string bytes_of(std::string_view word);

  std::vector<SplitRule> rules_;
  std::vector<Words> words_;  // by rule
  bool only_words_ = false;
  bool alphabet_ = false;  // whether words come in the byte alphabet
  bool prefix_ = false;
  std::string replacement_;
};

}  // namespace lockstep::data::bpe
