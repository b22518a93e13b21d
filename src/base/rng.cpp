#include "base/rng.h"

#include <Random123/philox.h>

#include "base/error.h"

namespace lockstep {
namespace {

std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return hash;
}

std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

}  // namespace

CounterRng::CounterRng(std::uint64_t seed, std::string_view name) {
  const std::uint64_t key = splitmix64(seed) ^ fnv1a(name);
  key_ = {low(key), high(key)};
}

std::array<std::uint32_t, 4> CounterRng::block(std::uint64_t lo, std::uint64_t hi) const {
  const r123::Philox4x32::ctr_type counter{{low(lo), high(lo), low(hi), high(hi)}};
  const r123::Philox4x32::key_type key{{key_[0], key_[1]}};
  const r123::Philox4x32::ctr_type out = r123::Philox4x32{}(counter, key);
  return {out[0], out[1], out[2], out[3]};
}

std::uint32_t CounterRng::word(std::uint64_t index, std::uint64_t hi) const { return block(index / 4, hi)[index % 4]; }

std::uint64_t CounterRng::word64(std::uint64_t index, std::uint64_t hi) const {
  const auto words = block(index, hi);
  return words[0] | std::uint64_t{words[1]} << 32;
}

double CounterRng::uniform(std::uint64_t index, std::uint64_t hi) const {
  return static_cast<double>(word64(index, hi) >> 11) * 0x1p-53;
}

std::uint64_t CounterRng::below(std::uint64_t n, std::uint64_t index, std::uint64_t hi) const {
  ensure(n >= 1, "the range holds at least one number");
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Wide>(word64(index, hi)) * n >> 64);
}

}  // namespace lockstep
