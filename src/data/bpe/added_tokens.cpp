#include "data/bpe/added_tokens.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "data/bpe/words.h"

namespace lockstep::data::bpe {
namespace {

unsigned char first_byte(const AddedToken& token) { return static_cast<unsigned char>(token.content.front()); }

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::ranges::stable_sort(tokens_, {}, &AddedToken::content);
  const auto twice = std::ranges::adjacent_find(tokens_, {}, &AddedToken::content);
  if (twice != tokens_.end()) {
    throw UserError(fmt::format("the added tokens {} and {} are the same text, {}, when they are normalised", twice->id,
                                std::next(twice)->id, Json(twice->content).dump()),
                    "leave one of them out");
  }
  for (const AddedToken& token : tokens_) ++starts_[first_byte(token) + 1U];
  for (std::size_t byte = 1; byte < starts_.size(); ++byte) starts_[byte] += starts_[byte - 1];
  for (std::uint32_t i = 0; i < tokens_.size(); ++i) {
    const std::uint32_t found = i == 0 ? i : longest_of(tokens_[i].content, i - 1);
    beginnings_.push_back(found == none ? i : found);
  }
}

// The last token that does not stand behind a text in the order begins with each token that the text begins with.
std::uint32_t AddedTokenFinder::longest_of(std::string_view text, std::uint32_t last) const {
  while (!text.starts_with(tokens_[last].content)) {
    if (beginnings_[last] == last) return none;
    last = beginnings_[last];
  }
  return last;
}

AddedTokenFinder::Found AddedTokenFinder::find(std::string_view text, std::size_t from) const {
  for (std::size_t at = tokens_.empty() ? text.size() : from; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (starts_[byte] == starts_[byte + 1U]) continue;
    const std::string_view rest = text.substr(at);
    const auto begin = tokens_.begin() + starts_[byte], end = tokens_.begin() + starts_[byte + 1U];
    const auto behind =
        std::ranges::upper_bound(begin, end, rest, {}, [](const AddedToken& token) { return std::string_view(token.content); });
    if (behind == begin) continue;
    const std::uint32_t found = longest_of(rest, static_cast<std::uint32_t>(behind - tokens_.begin()) - 1);
    if (found != none) return {at, at + tokens_[found].content.size(), &tokens_[found]};
  }
  return {text.size(), text.size(), nullptr};
}

bool AddedTokenFinder::is_part_of_a_word(std::string_view text, const Found& found) const {
  return (found.begin > 0 && words_.has(pattern::character_before(text, found.begin).value)) ||
         (found.end < text.size() && words_.has(pattern::character_at(text, found.end).value));
}

std::size_t AddedTokenFinder::space_before(std::string_view text, std::size_t at) const {
  while (at > 0) {
    const CodePoint point = pattern::character_before(text, at);
    if (!spaces_.has(point.value)) break;
    at -= point.length;
  }
  return at;
}

std::size_t AddedTokenFinder::space_behind(std::string_view text, std::size_t at) const {
  while (at < text.size()) {
    const CodePoint point = pattern::character_at(text, at);
    if (!spaces_.has(point.value)) break;
    at += point.length;
  }
  return at;
}

// A cut stands behind a letter or digit and before a blank or line feed.
Boundaries::Boundaries(const std::vector<AddedToken>& tokens, const std::function<bool(char, char)>& may_cut) {
  const auto byte = [](char c) { return static_cast<unsigned char>(c); };
  for (const char a : std::string_view("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")) {
    for (const char b : {' ', '\n'}) joined_[byte(a)][byte(b)] = !may_cut(a, b);
  }
  for (const AddedToken& token : tokens) {
    const std::string& content = token.content;
    for (std::size_t at = 1; at < content.size(); ++at) joined_[byte(content[at - 1])][byte(content[at])] = true;
    for (const char space : {' ', '\n'}) {
      if (token.rstrip) joined_[byte(content.back())][byte(space)] = true;
      if (!token.single_word || content.front() != space) continue;
      for (std::array<bool, 256>& before : joined_) before[byte(space)] = true;
    }
  }
}

std::size_t Boundaries::find(std::string_view text, std::size_t from) const {
  std::size_t at = word_boundary(text, from);
  while (at != std::string_view::npos &&
         joined_[static_cast<unsigned char>(text[at - 1])][static_cast<unsigned char>(text[at])]) {
    at = word_boundary(text, at + 1);
  }
  return at;
}

}  // namespace lockstep::data::bpe
