#pragma once

// Where the added tokens of a vocabulary stand in a text: the leftmost first, of those that start together the longest.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/bpe/model.h"

namespace lockstep::data::bpe {

class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  struct Found {
    std::size_t begin, end;
    std::int32_t id;  ///< -1: none; begin and end are the text's end
  };
  /// The first one from `from` on.
  Found find(std::string_view text, std::size_t from) const;

 private:
  std::vector<AddedToken> tokens_;  // the longest first
  std::array<bool, 256> starts_{};  // by byte: some token starts with it
};

}  // namespace lockstep::data::bpe
