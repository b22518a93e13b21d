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
    if (rule.kind == NormalKind::nfc) {
      if (!nfc_) nfc_ = std::make_unique<Nfc>();
      const std::size_t growth = &rule == rules_.data() ? Nfc::most_growth : 4 * Nfc::most_growth;  // an id may be four bytes
      growth_ *= growth;
      prefix_ *= growth;
    } else if (rule.kind == NormalKind::replace) {
      const std::size_t found = std::max<std::size_t>(most_ids(rule.literal), 1);
      const std::size_t growth = std::max<std::size_t>((most_ids(rule.content) + found - 1) / found, 1);
      growth_ *= growth;
      prefix_ *= growth;
    } else if (rule.kind == NormalKind::prepend) {
      prefix_ += most_ids(rule.content);
    }
    if (growth_ > most_growth || prefix_ > most_growth) {
      throw UserError(fmt::format("the tokenizer's normalizer may make a text more than {} times as long", most_growth),
                      "use a tokenizer without such a normalizer");
    }
  }
}

std::string_view Normalizer::replace(const NormalRule& rule, std::string_view text, std::string& out, NormalScratch& scratch) {
  out.clear();
  std::size_t done = 0;
  const auto put = [&](std::size_t begin, std::size_t end) {
    out.append(text.substr(done, begin - done)).append(rule.content);
    done = end;
    scratch.begins = scratch.begins && (begin > 0 || !rule.content.empty());
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
  if (done == 0) return text;
  return out.append(text.substr(done));
}

std::string_view Normalizer::operator()(std::string_view text, bool goes_on, NormalScratch& scratch) const {
  bool which = false;
  scratch.begins = true;
  for (const NormalRule& rule : rules_) {
    std::string& out = scratch.texts[which ? 1 : 0];
    const char* before = text.data();
    switch (rule.kind) {
      case NormalKind::nfc:
        text = (*nfc_)(text, out);
        break;
      case NormalKind::prepend:
        if (goes_on || text.empty()) break;
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
        scratch.begins = scratch.begins && begin == 0;
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

std::vector<char32_t> Normalizer::images(char32_t a, char32_t b) const {
  constexpr char32_t metaspace = 0x2581;
  std::vector<char32_t> seen{b};
  for (const NormalRule& rule : rules_) {
    if (rule.kind == NormalKind::nfc && std::ranges::any_of(seen, [](char32_t c) { return c >= 0x80 && c != metaspace; }))
      return {};
    if (rule.kind != NormalKind::replace) continue;
    const auto taken = [&](char32_t c) { return rule.find->may_take(c); };
    if (taken(a) || std::ranges::any_of(seen, [&](char32_t c) { return rule.find->reaches_over(a, c); })) return {};
    if (std::ranges::none_of(seen, taken)) continue;
    if (rule.content.empty()) return {};
    const auto is_it = [&](char32_t c) {
      std::string text;
      if (c != pattern::no_character) append_utf8(text, c);
      return text == rule.literal;
    };
    std::erase_if(seen, is_it);  // no other one stays for certain
    seen.push_back(pattern::character_at(rule.content, 0).value);
  }
  return seen;
}

}  // namespace lockstep::data::bpe
