#pragma once

// Random numbers by which the emulation draws lots.

#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep::emulation {

/// xorshift64: two nanoseconds a number.
class Lot {
 public:
  void set_seed(std::uint64_t seed) {
    seed_ = seed;
    state_ = (seed + 1) * 0x9e3779b97f4a7c15ULL | 1U;
  }
  std::uint64_t seed() const { return seed_; }
  std::uint64_t draw() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ >> 8;
  }
  /// A number from 0 to count - 1.
  std::uint64_t draw(std::uint64_t count) { return draw() % count; }
  template <class T>
  void shuffle(std::vector<T>& all) {
    for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[draw(i)]);
  }

 private:
  std::uint64_t seed_ = 1, state_ = 0x9e3779b97f4a7c15ULL | 1U;
};

Lot& lot();

}  // namespace lockstep::emulation
