#pragma once

// What happens inside a word: neighbours are merged, the pair of the lowest rank first and of equals the leftmost.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/bpe/model.h"

namespace lockstep::data::bpe {

/// The memory of a merge, used again. One a thread.
struct MergeScratch {
  struct Part {
    std::int32_t id;
    std::uint32_t rank;   // of the pair with the next part
    std::int32_t merged;  // what that pair becomes
    std::uint32_t before, next;
  };
  struct Candidate {
    std::uint32_t rank, at;
    std::int32_t left, right;
  };
  std::vector<Part> parts;
  std::vector<Candidate> heap;
  std::string unknown;
};

class Merges {
 public:
  explicit Merges(const Model& model);
  /// Writes the ids of `word`, at most word.size(), and returns their number. Characters that the vocabulary lacks, and has no
  /// token for, are left out and appended to scratch.unknown.
  std::size_t encode(std::string_view word, std::int32_t* ids, MergeScratch& scratch) const;

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  struct Entry {
    std::uint64_t pair = ~std::uint64_t{0};
    std::uint32_t rank = none;
    std::int32_t merged = -1;
  };
  static std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t slot(std::uint64_t pair) const { return static_cast<std::size_t>((pair * 0x9E3779B97F4A7C15U) >> shift_); }
  Entry find(std::int32_t left, std::int32_t right) const;
  std::size_t characters_of(std::string_view word, std::int32_t* ids, std::string& unknown) const;
  // Merges the ids in place.
  std::size_t merge_short(std::int32_t* ids, std::size_t count, std::vector<MergeScratch::Part>& parts) const;
  std::size_t merge_long(std::int32_t* ids, std::size_t count, MergeScratch& scratch) const;

  bool byte_level_;
  std::array<std::int32_t, 256> bytes_;
  std::vector<std::int32_t> characters_;
  std::int32_t unknown_;
  bool fuse_unknown_;
  int shift_ = 64;
  std::vector<Entry> table_;  // open addressing
};

}  // namespace lockstep::data::bpe
