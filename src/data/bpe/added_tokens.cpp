#include "data/bpe/added_tokens.h"

#include <algorithm>
#include <utility>

namespace lockstep::data::bpe {

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::ranges::sort(tokens_, [](const AddedToken& a, const AddedToken& b) {
    return std::pair(b.content.size(), a.id) < std::pair(a.content.size(), b.id);
  });
  for (const AddedToken& token : tokens_) starts_[static_cast<unsigned char>(token.content[0])] = true;
}

AddedTokenFinder::Found AddedTokenFinder::find(std::string_view text, std::size_t from) const {
  if (!tokens_.empty()) {
    for (std::size_t at = from; at < text.size(); ++at) {
      if (!starts_[static_cast<unsigned char>(text[at])]) continue;
      for (const AddedToken& token : tokens_) {
        if (text.substr(at).starts_with(token.content)) return {at, at + token.content.size(), token.id};
      }
    }
  }
  return {text.size(), text.size(), -1};
}

}  // namespace lockstep::data::bpe
