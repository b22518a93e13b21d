// The mask of attention weights, drawn for one row of a block of scores at a time. Included once per Highway target (so it
// has no include guard) after philox-inl.h.

#include <cmath>
#include <cstdint>

#include "ops/cpu/attention/task.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

/// Draws rows of factors: 0 for a dropped weight, 1 / (1 - p) for a kept one.
class MaskRow {
 public:
  explicit MaskRow(const WeightDropout& drop)
      : site_(*drop.site),
        number_(static_cast<std::uint64_t>(drop.site->first_sample + drop.sample)),
        kept_(1 / (1 - drop.site->p)),
        least_(static_cast<std::uint32_t>(std::ceil(static_cast<double>(drop.site->p) * 4294967296.0))) {}

  /// Sets factors[j], j < 64, to the factors of one query's weights for keys first_key + j.
  void draw(std::int64_t head, std::int64_t position, std::int64_t first_key, float* HWY_RESTRICT factors) const {
    const std::int64_t index = site_.first_index + head * site_.index_stride + first_key, skip = index % 4;
    alignas(64) std::uint32_t words[2 * key_block];
    draw_block(index / 4, position, words);
    if (skip != 0) draw_block(index / 4 + key_block / 4, position, words + key_block);
    for (std::int64_t j = 0; j < key_block; ++j) factors[j] = words[skip + j] >= least_ ? kept_ : 0.0f;
  }

 private:
  void draw_block(std::int64_t first, std::int64_t position, std::uint32_t* words) const {
    Draw64(words, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(number_),
           static_cast<std::uint32_t>(number_ >> 32), site_.key[0], site_.key[1]);
  }

  const DropoutSite& site_;
  std::uint64_t number_;
  float kept_;
  std::uint32_t least_;
};

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
