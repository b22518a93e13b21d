#include "data/bpe/normalizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lockstep::data::bpe {

using NormalKind = NormalRule::Kind;

namespace {

constexpr std::size_t most_growth = 64;

}  // namespace

Normalizer::Normalizer(std::vector<NormalRule> rules, const std::function<std::size_t(std::string_view)>& most_ids)
    : rules_(std::move(rules)) {
  for (const NormalRule& rule : rules_) {
    if (const std::size_t growth = growth_of(rule, &rule == rules_.data()); growth > 0) {
      growth_ *= growth;
      prefix_ *= growth;
    } else if (rule.kind == NormalKind::replace) {
      const std::size_t found = std::max<std::size_t>(most_ids(rule.literal), 1);
      const std::size_t more = std::max<std::size_t>((most_ids(rule.content) + found - 1) / found, 1);
      growth_ *= more;
      prefix_ *= more;
    } else if (rule.kind == NormalKind::prepend) {
      prefix_ += most_ids(rule.content);
    }
    if (growth_ > most_growth || prefix_ > most_growth) {
      throw UserError(fmt::format("the tokenizer's normalizer may make a text more than {} times as long", most_growth),
                      "use a tokenizer without such a normalizer");
    }
  }
}

// By how much a rule that goes by characters makes a text longer; 0: it is none. `first`: the text is measured in bytes, else in
// ids, of which one may be a character of four bytes.
std::size_t Normalizer::growth_of(const NormalRule& rule, bool first) {
  const std::size_t bytes = first ? 1 : 4;
  if (rule.kind == NormalKind::charsmap) return bytes * rule.map->most_growth();
  if (rule.kind == NormalKind::form) {
    const normal::NormalForm& form = forms_.try_emplace(rule.form, rule.form).first->second;
    return first ? form.most_growth() : form.longest();
  }
  if (rule.kind != NormalKind::lower_case && rule.kind != NormalKind::accents) return 0;
  if (!letters_) letters_ = std::make_unique<normal::Letters>();
  if (rule.kind == NormalKind::accents) return 1;
  return std::max(normal::Letters::most_growth, bytes);
}

// What the front becomes by itself has its place, as far as what follows changes nothing of it. So has the first character.
std::string_view Normalizer::in_form(const normal::NormalForm& form, std::string_view text, std::string& out,
                                     NormalScratch& scratch) {
  const std::string alone(form(text.substr(0, scratch.front), out));
  const std::string_view result = form(text, out);
  if (alone.empty() || result.empty()) return scratch.front = 0, result;
  auto same = static_cast<std::size_t>(std::ranges::mismatch(alone, result).in1 - alone.begin());
  while (same < result.size() && is_continuation(result[same])) --same;
  scratch.front = std::max(same, pattern::character_at(result, 0).length);
  return result;
}

std::string_view Normalizer::replace(const NormalRule& rule, std::string_view text, std::string& out, NormalScratch& scratch) {
  out.clear();
  std::size_t done = 0;
  const std::size_t front = std::exchange(scratch.front, 0);
  const auto keep = [&](std::size_t end) { scratch.front += std::min(end, std::max(front, done)) - done; };
  const auto put = [&](std::size_t begin, std::size_t end) {
    keep(begin);
    out.append(text.substr(done, begin - done)).append(rule.content);
    if (end <= front) scratch.front += rule.content.size();  // it has the place of the last byte that it replaces
    done = end;
  };
  if (!rule.literal.empty()) {
    for (std::size_t at = text.find(rule.literal); at != std::string_view::npos; at = text.find(rule.literal, done)) {
      put(at, at + rule.literal.size());
    }
  } else {
    for (pattern::Regex::Found found = rule.find->find(text, 0, scratch.matching); found.begin < text.size();
         found = rule.find->find(text, done, scratch.matching)) {
      put(found.begin, found.end);
    }
  }
  keep(text.size());
  if (done == 0) return text;
  return out.append(text.substr(done));
}

std::string_view Normalizer::operator()(std::string_view text, bool goes_on, NormalScratch& scratch) const {
  bool which = false;
  std::size_t& front = scratch.front = text.empty() ? 0 : pattern::character_at(text, 0).length;
  for (const NormalRule& rule : rules_) {
    std::string& out = scratch.texts[which ? 1 : 0];
    const char* before = text.data();
    switch (rule.kind) {
      case NormalKind::form:
        text = in_form(forms_.at(rule.form), text, out, scratch);
        break;
      case NormalKind::lower_case:
        front = letters_->lower_case(text.substr(0, front), out).size();
        text = letters_->lower_case(text, out);
        break;
      case NormalKind::accents:
        front = letters_->without_accents(text.substr(0, front), out).size();
        text = letters_->without_accents(text, out);
        break;
      case NormalKind::charsmap:
        front = rule.map->front(text, front);
        text = (*rule.map)(text, out);
        break;
      case NormalKind::prepend:
        if (goes_on || text.empty()) break;
        if (front > 0) front += rule.content.size();
        out.assign(rule.content).append(text);
        text = out;
        break;
      case NormalKind::replace:
        text = replace(rule, text, out, scratch);
        break;
      case NormalKind::strip: {
        std::size_t begin = 0;
        while (rule.left && !goes_on && begin < text.size() && spaces_.has(pattern::character_at(text, begin).value)) {
          begin += pattern::character_at(text, begin).length;
        }
        text.remove_prefix(begin);
        front -= std::min(front, begin);
        while (rule.right && !text.empty() && spaces_.has(pattern::character_before(text, text.size()).value)) {
          text.remove_suffix(pattern::character_before(text, text.size()).length);
        }
        continue;  // a part of the text that it was
      }
    }
    if (text.data() != before) which = !which;
  }
  return text;
}

std::string Normalizer::operator()(std::string_view text) const {
  NormalScratch scratch;
  return std::string((*this)(text, false, scratch));
}

namespace {

/// What becomes of characters that a map may change; false: that depends on others, or `a` changes.
bool map_images(const normal::Charsmap& map, char32_t a, std::vector<char32_t>& seen) {
  const auto text_of = [](char32_t c) {
    std::string text;
    append_utf8(text, c);
    return text;
  };
  if (map.goes_on(text_of(a)) || map.replacement(text_of(a))) return false;
  for (char32_t& c : seen) {
    if (map.goes_on(text_of(c))) return false;
    const auto by = map.replacement(text_of(c));
    if (by && by->empty()) return false;
    if (by) c = pattern::character_at(*by, 0).value;
  }
  return true;
}

/// The same of a rule that replaces a text.
bool replace_images(const NormalRule& rule, char32_t a, std::vector<char32_t>& seen) {
  const auto taken = [&](char32_t c) { return rule.find->may_take(c); };
  if (taken(a) || std::ranges::any_of(seen, [&](char32_t c) { return rule.find->reaches_over(a, c); })) return false;
  if (std::ranges::none_of(seen, taken)) return true;
  if (rule.content.empty()) return false;
  const auto is_it = [&](char32_t c) {
    std::string text;
    if (c != pattern::no_character) append_utf8(text, c);
    return text == rule.literal;
  };
  std::erase_if(seen, is_it);  // no other one stays for certain
  seen.push_back(pattern::character_at(rule.content, 0).value);
  return true;
}

}  // namespace

std::vector<char32_t> Normalizer::images(char32_t a, char32_t b) const {
  constexpr char32_t metaspace = 0x2581;
  std::vector<char32_t> seen{b};
  for (const NormalRule& rule : rules_) {
    const bool by_characters =
        rule.kind != NormalKind::replace && rule.kind != NormalKind::prepend && rule.kind != NormalKind::strip;
    if (by_characters && std::ranges::any_of(seen, [](char32_t c) { return c >= 0x80 && c != metaspace; })) return {};
    if (rule.kind == NormalKind::lower_case) {
      if (letters_->lower(a) != a) return {};
      for (char32_t& c : seen) c = letters_->lower(c);
    }
    if (rule.kind == NormalKind::charsmap && !map_images(*rule.map, a, seen)) return {};
    if (rule.kind == NormalKind::replace && !replace_images(rule, a, seen)) return {};
  }
  return seen;
}

}  // namespace lockstep::data::bpe
