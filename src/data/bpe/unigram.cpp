#include "data/bpe/unigram.h"

#include <algorithm>

namespace lockstep::data::bpe {
namespace {

// What a character that no token has loses against the lowest score, as in SentencePiece and tokenizers.
constexpr double penalty = 10;

}  // namespace

Unigram::Unigram(const Model& model) : bytes_(model.bytes), unknown_(model.unknown) {
  for (std::size_t id = 0; id < model.scores.size(); ++id) {
    tokens_.push_back({model.tokens[id], static_cast<std::int32_t>(id), model.scores[id]});
  }
  unknown_score_ = std::ranges::min_element(tokens_, {}, &Token::score)->score - penalty;
  std::ranges::sort(tokens_, {}, &Token::text);
  for (std::size_t byte = 0; byte < 256; ++byte) starts_[byte] = narrowed({0, tokens_.size()}, 0, static_cast<char>(byte));
}

Unigram::Range Unigram::narrowed(Range range, std::size_t length, char byte) const {
  const auto at = [&](const Token& token) {
    return token.text.size() > length ? static_cast<unsigned char>(token.text[length]) : -1;
  };
  const auto tokens = std::ranges::subrange(tokens_.begin() + static_cast<std::ptrdiff_t>(range.begin),
                                            tokens_.begin() + static_cast<std::ptrdiff_t>(range.end));
  const auto found = std::ranges::equal_range(tokens, static_cast<int>(static_cast<unsigned char>(byte)), {}, at);
  return {static_cast<std::size_t>(found.begin() - tokens_.begin()), static_cast<std::size_t>(found.end() - tokens_.begin())};
}

template <class Take>
void Unigram::prefixes(std::string_view text, const Take& take) const {
  Range range = starts_[static_cast<unsigned char>(text[0])];
  for (std::size_t length = 1; range.begin < range.end; ++length) {
    if (tokens_[range.begin].text.size() == length) take(tokens_[range.begin]);
    if (length == text.size()) return;
    range = narrowed(range, length, text[length]);
  }
}

std::size_t Unigram::encode(std::string_view word, std::int32_t* ids, UnigramScratch& scratch, std::string& unknown) const {
  constexpr std::size_t none = std::string_view::npos;
  std::vector<UnigramScratch::Node>& best = scratch.best;
  best.assign(word.size() + 1, {0, none, 0});
  for (std::size_t at = 0, length = 0; at < word.size(); at += length) {
    length = pattern::character_at(word, at).length;
    bool alone = false;
    const double before = best[at].score;
    const auto offer = [&](std::size_t bytes, double score, std::int32_t id) {
      UnigramScratch::Node& node = best[at + bytes];
      if (node.begin == none || score + before > node.score) node = {score + before, at, id};
      alone = alone || bytes == length;
    };
    prefixes(word.substr(at), [&](const Token& token) { offer(token.text.size(), token.score, token.id); });
    if (!alone) offer(length, unknown_score_, unknown_);
  }
  std::vector<UnigramScratch::Node>& path = scratch.path;
  path.clear();
  for (std::size_t end = word.size(); end > 0; end = path.back().begin) path.push_back(best[end]);
  std::int32_t* to = ids;
  for (std::size_t last = path.size(); last > 0;) {
    const std::size_t begin = path[last - 1].begin;
    const bool lacks = path[last - 1].id == unknown_;
    if (!lacks) *to++ = path[last - 1].id;
    --last;
    if (!lacks) continue;
    while (last > 0 && path[last - 1].id == unknown_) --last;  // unknown neighbours are one
    to = unknown_ids(word.substr(begin, (last > 0 ? path[last - 1].begin : word.size()) - begin), to, unknown);
  }
  return static_cast<std::size_t>(to - ids);
}

std::int32_t* Unigram::unknown_ids(std::string_view text, std::int32_t* ids, std::string& unknown) const {
  std::int32_t whole = -1;
  prefixes(text, [&](const Token& token) { whole = token.text.size() == text.size() ? token.id : whole; });
  const auto id_of = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)]; };
  if (whole < 0 && std::ranges::all_of(text, [&](char byte) { return id_of(byte) >= 0; })) {
    return std::ranges::transform(text, ids, id_of).out;
  }
  if (whole < 0) whole = unknown_;
  if (whole >= 0) {
    *ids++ = whole;
  } else {
    unknown += text;
  }
  return ids;
}

}  // namespace lockstep::data::bpe
