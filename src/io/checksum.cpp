#include "io/checksum.h"

#include <cstring>

#include "base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "io/checksum.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::io {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Two rounds of a 32-bit multiplier (one instruction on every target, where a full 64-bit product is many). The key steps by
// 2^64 divided by the golden ratio from one index to the next.
constexpr std::uint64_t key_step = 0x9E3779B97F4A7C15;
constexpr std::uint64_t first_multiplier = 0x9E3779B1;
constexpr std::uint64_t second_multiplier = 0x85EBCA77;

std::uint64_t mix(std::uint64_t word, std::uint64_t key) {
  const std::uint64_t y = word * first_multiplier + key;
  const std::uint64_t z = (y ^ (y >> 29)) * second_multiplier;
  return z ^ (z >> 32);
}

template <class D, class V>
V mix(D d, V word, V key) {
  const hn::Repartition<std::uint32_t, D> d32;
  const auto halves = [&](V v) { return hn::BitCast(d32, v); };
  V y = hn::Add(hn::MulEven(halves(word), halves(hn::Set(d, first_multiplier))), key);
  y = hn::Xor(y, hn::ShiftRight<29>(y));
  const auto multiplier = halves(hn::Set(d, second_multiplier));
  const V low = hn::MulEven(halves(y), multiplier);
  const V high = hn::MulEven(halves(hn::ShiftRight<32>(y)), multiplier);
  const V z = hn::Add(low, hn::ShiftLeft<32>(high));
  return hn::Xor(z, hn::ShiftRight<32>(z));
}

// One word a lane of D.
template <class D, class Word>
hn::Vec<D> load(D d, const Word* from) {
  const hn::Rebind<std::uint32_t, D> half;
  if constexpr (sizeof(Word) == 4) {
    return hn::PromoteTo(d, hn::LoadU(half, from));
  } else {
    return hn::PromoteTo(d, hn::PromoteTo(half, hn::LoadU(hn::Rebind<Word, D>(), from)));
  }
}

template <class Word>
std::uint64_t sum(const std::byte* data, std::size_t words, std::uint64_t first) {
  const hn::ScalableTag<std::uint64_t> d;
  const std::size_t lanes = hn::Lanes(d);
  std::uint64_t key = (first + 1) * key_step;
  std::size_t i = 0;
  alignas(64) std::uint64_t keys[HWY_MAX_BYTES / sizeof(std::uint64_t)];
  for (std::size_t lane = 0; lane < lanes; ++lane) keys[lane] = key + lane * key_step;
  const Word* from = reinterpret_cast<const Word*>(data);
  auto key0 = hn::Load(d, keys);
  const auto step = hn::Set(d, lanes * key_step);
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  for (; i + 2 * lanes <= words; i += 2 * lanes) {
    const auto key1 = hn::Add(key0, step);
    sum0 = hn::Add(sum0, mix(d, load(d, from + i), key0));
    sum1 = hn::Add(sum1, mix(d, load(d, from + i + lanes), key1));
    key0 = hn::Add(key1, step);
  }
  std::uint64_t total = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  key += i * key_step;
  for (; i < words; ++i, key += key_step) {
    Word word;
    std::memcpy(&word, data + i * sizeof(word), sizeof(word));  // data need not be aligned
    total += mix(word, key);
  }
  return total;
}

std::uint64_t sum_words(const std::byte* data, std::size_t word_size, std::size_t words, std::uint64_t first) {
  if (word_size == 4) return sum<std::uint32_t>(data, words, first);
  if (word_size == 2) return sum<std::uint16_t>(data, words, first);
  return sum<std::uint8_t>(data, words, first);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::io
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::io {

HWY_EXPORT(sum_words);

std::uint64_t checksum(std::span<const std::byte> data, std::size_t element_size, std::uint64_t first_element) {
  ensure(element_size == 1 || element_size == 2 || element_size == 4 || element_size == 8, "elements have 1, 2, 4 or 8 bytes");
  ensure(data.size() % element_size == 0, "a checksum covers whole elements");
  const std::size_t word_size = element_size == 8 ? 4 : element_size;
  const std::uint64_t first_word = first_element * (element_size / word_size);
  return HWY_DYNAMIC_DISPATCH(sum_words)(data.data(), word_size, data.size() / word_size, first_word);
}

}  // namespace lockstep::io
#endif
