#pragma once

// How often each word occurs in texts: all that training a BPE needs to know of them.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "data/bpe/words.h"

namespace lockstep::data::bpe {

class WordCounts {
 public:
  void add(const Words& words, std::string_view text);
  /// Takes over what another one counted.
  void add(WordCounts&& other);

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
  };
  using Map = std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>>;
  const Map& words() const { return counts_; }

 private:
  Map counts_;
};

}  // namespace lockstep::data::bpe
