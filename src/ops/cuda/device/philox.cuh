#pragma once

// Philox4x32-10 (Salmon et al., SC'11). The words are those of CounterRng (base/rng.h) and of DropoutSite (ops/dropout.h).

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "ops/dropout.h"

namespace lockstep::ops::cuda {

struct Words {
  std::uint32_t w[4];
  /// w[i], without an index into registers.
  __device__ __forceinline__ std::uint32_t at(std::uint32_t i) const {
    const std::uint32_t low = i % 2 == 0 ? w[0] : w[1], high = i % 2 == 0 ? w[2] : w[3];
    return i < 2 ? low : high;
  }
};

/// The random words of a counter.
__device__ __forceinline__ Words philox(Words c, std::uint32_t key0, std::uint32_t key1) {
#pragma unroll 1  // where a thread draws many words, unrolled rounds would be most of the kernel
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{c.w[0]} * 0xD2511F53U, b = std::uint64_t{c.w[2]} * 0xCD9E8D57U;
    c = {{static_cast<std::uint32_t>(b >> 32U) ^ c.w[1] ^ key0, static_cast<std::uint32_t>(b),
          static_cast<std::uint32_t>(a >> 32U) ^ c.w[3] ^ key1, static_cast<std::uint32_t>(a)}};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return c;
}

/// The parameters from which a dropout mask is drawn.
struct DropMask {
  std::uint32_t key0 = 0, key1 = 0;
  std::uint32_t least = 0;  ///< an element whose word is below it is dropped
  float kept = 1;           ///< what a kept one is multiplied by
  /// Whether element `index` of position `position` is kept.
  __device__ __forceinline__ bool keeps(std::int64_t sample, std::int64_t position, std::int64_t index) const {
    return words(sample, position, index).at(static_cast<std::uint32_t>(index % 4)) >= least;
  }
  /// Whether an element and the next one are kept. Mostly one counter has the words of both.
  __device__ __forceinline__ void keep_two(std::int64_t sample, std::int64_t position, std::int64_t index,
                                           bool (&kept)[2]) const {
    Words drawn = words(sample, position, index);
    kept[0] = drawn.at(static_cast<std::uint32_t>(index % 4)) >= least;
    if (index % 4 == 3) drawn = words(sample, position, index + 1);
    kept[1] = drawn.at(static_cast<std::uint32_t>((index + 1) % 4)) >= least;
  }

 private:
  /// The random words of an element and its neighbours.
  __device__ __forceinline__ Words words(std::int64_t sample, std::int64_t position, std::int64_t index) const {
    const auto number = static_cast<std::uint64_t>(sample);
    return philox({{static_cast<std::uint32_t>(index / 4), static_cast<std::uint32_t>(position),
                    static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32U)}},
                  key0, key1);
  }
};

inline DropMask mask_of(const DropoutSite& site) {
  return {site.key[0], site.key[1], static_cast<std::uint32_t>(std::ceil(static_cast<double>(site.p) * 4294967296.0)),
          1 / (1 - site.p)};
}

}  // namespace lockstep::ops::cuda
