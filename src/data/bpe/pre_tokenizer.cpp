#include "data/bpe/pre_tokenizer.h"

#include <algorithm>

#include "data/bpe/byte_alphabet.h"

namespace lockstep::data::bpe {

using SplitKind = SplitRule::Kind;

PreTokenizer::PreTokenizer(std::vector<SplitRule> rules) : rules_(std::move(rules)) {
  if (!rules_.empty() && rules_.back().kind == SplitKind::alphabet) rules_.pop_back();  // which no step looks at
  for (const SplitRule& rule : rules_) {
    words_.emplace_back(rule.pattern);
    alphabet_ = alphabet_ || rule.kind == SplitKind::alphabet;
    if (rule.kind == SplitKind::metaspace) replacement_ = rule.replacement;
    prefix_ = prefix_ || rule.kind == SplitKind::prefix;
  }
  only_words_ = rules_.size() == 1 && rules_.front().kind == SplitKind::words;
}

bool PreTokenizer::change(const SplitRule& rule, std::string_view text, std::size_t& front, std::string& changed) {
  if (rule.kind == SplitKind::prefix) {
    if (text.starts_with(' ')) return false;
    changed = " ";
    changed += text;
    if (front > 0) ++front;
    return true;
  }
  if (rule.kind == SplitKind::alphabet) {
    front = to_alphabet(text.substr(0, front)).size();
    changed = to_alphabet(text);
    return true;
  }
  if (rule.kind != SplitKind::metaspace) return false;
  using Prepend = SplitRule::Prepend;
  changed.clear();
  const bool may = rule.prepend == Prepend::always || (rule.prepend == Prepend::first && front > 0);
  if (may && !text.starts_with(' ') && !text.starts_with(rule.replacement)) changed = rule.replacement;
  for (const char byte : text) {
    if (byte == ' ') {
      changed += rule.replacement;
    } else {
      changed += byte;
    }
  }
  return true;
}

std::string PreTokenizer::bytes_of(std::string_view word) { return from_alphabet(word).value_or(std::string(word)); }

// Whether a piece always ends between `a` and `b`, over which no match reaches.
bool PreTokenizer::parts(const SplitRule& rule, char32_t a, char32_t b) {
  const bool has_a = rule.regex->always_takes(a), has_b = rule.regex->always_takes(b);
  switch (rule.behavior) {
    case Behavior::isolated:
    case Behavior::removed:
      return has_a || has_b;
    case Behavior::merged_with_previous:
      return has_a && !rule.invert;
    case Behavior::merged_with_next:
      return has_b && !rule.invert;
    case Behavior::contiguous:
      return (has_a && !rule.regex->may_take(b)) || (has_b && !rule.regex->may_take(a));
  }
  return false;
}

// A step is harmless when no match of it looks over the cut. Then its pieces are those of the parts, but for one that lies on
// both sides. The first step that is harmless and ends a piece at every such place ends it for those behind, too.
PreTokenizer::Cut PreTokenizer::cut(char32_t a, char32_t b) const {
  using Place = Cut::Place;
  for (const SplitRule& rule : rules_) {
    switch (rule.kind) {
      case SplitKind::words:
        return {b == ' ' || b == '\n' ? Place::apart : Place::other, b};
      case SplitKind::matches:
        if (rule.regex->reaches_over(a, b)) return {Place::other, b};
        if (parts(rule, a, b)) return {Place::apart, b};
        break;
      case SplitKind::metaspace: {
        const char32_t blank = pattern::character_at(rule.replacement, 0).value;
        if (b != ' ' && b != blank) return {Place::other, b};
        if (rule.splits) return {Place::apart, blank};
        b = blank;
        break;
      }
      case SplitKind::prefix:
        if (b != ' ') return {Place::other, b};
        break;
      case SplitKind::alphabet:
        return {Place::other, b};
    }
  }
  return {Place::inside, b};
}

}  // namespace lockstep::data::bpe
