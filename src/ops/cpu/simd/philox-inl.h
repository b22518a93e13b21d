// Philox4x32-10 (Salmon et al., SC'11) a vector of blocks at a time, included once per Highway target after
// lanes-inl.h. The words are those of CounterRng (base/rng.h) and of DropoutSite (ops/dropout.h).

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

using Blocks = hn::Repartition<std::uint64_t, Floats>;
using BlockVec = hn::Vec<Blocks>;
using Words = hn::Repartition<std::uint32_t, Floats>;
using WordVec = hn::Vec<Words>;
constexpr Blocks blocks_tag;
constexpr Words words_tag;
constexpr std::size_t block_lanes = vector_lanes / 2;

/// Words 0 to 3 of a block in each lane. A word is the low half of its lane; the high half is undefined.
struct BlockWords {
  BlockVec w[4];
};

/// The low halves of a and b times a constant, 64 bits wide.
HWY_INLINE BlockVec WideProduct(BlockVec a, std::uint32_t factor) {
  return hn::MulEven(hn::BitCast(words_tag, a), hn::Set(words_tag, factor));
}

/// Replaces counters by random words.
HWY_INLINE void Philox(BlockWords& c, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const BlockVec a = WideProduct(c.w[0], 0xD2511F53);
    const BlockVec b = WideProduct(c.w[2], 0xCD9E8D57);
    c.w[0] = hn::Xor(hn::Xor(hn::ShiftRight<32>(b), c.w[1]), hn::Set(blocks_tag, key0));
    c.w[1] = b;
    c.w[2] = hn::Xor(hn::Xor(hn::ShiftRight<32>(a), c.w[3]), hn::Set(blocks_tag, key1));
    c.w[3] = a;
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
}

/// Interleaves the words of a and b: a0 b0 a1 b1 ...
HWY_INLINE WordVec PackWords(BlockVec a, BlockVec b) {
  return hn::OddEven(hn::BitCast(words_tag, hn::ShiftLeft<32>(b)), hn::BitCast(words_tag, a));
}

/// Writes 64 words to `to` (aligned): the blocks with counters {first + k, c1, c2, c3}, k in [0, 16).
HWY_INLINE void Draw64(std::uint32_t* to, std::uint32_t first, std::uint32_t c1, std::uint32_t c2, std::uint32_t c3,
                       std::uint32_t key0, std::uint32_t key1) {
  for (std::size_t k = 0; k < 16; k += block_lanes) {
    BlockWords words{
        {hn::Iota(blocks_tag, first + k), hn::Set(blocks_tag, c1), hn::Set(blocks_tag, c2), hn::Set(blocks_tag, c3)}};
    Philox(words, key0, key1);
    const BlockVec low = hn::BitCast(blocks_tag, PackWords(words.w[0], words.w[1]));
    const BlockVec high = hn::BitCast(blocks_tag, PackWords(words.w[2], words.w[3]));
    hn::StoreInterleaved2(low, high, blocks_tag, reinterpret_cast<std::uint64_t*>(to) + 2 * k);
  }
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
