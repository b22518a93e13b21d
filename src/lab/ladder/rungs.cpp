#include "lab/ladder/rungs.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>

#include "base/checked.h"
#include "base/number_text.h"

namespace lockstep::lab {
namespace {

using layout::AttentionWeights;

constexpr std::int64_t gpt2_vocabulary = 50257, gpt2_padded = 50304;

void compute_mask(LadderPlace& place, int /*cores*/) {
  if (place.attention == AttentionWeights::masked) place.attention = AttentionWeights::whole;
}
void multiply_best(LadderPlace& place, int /*cores*/) { place.plain.products = false; }
void fuse_adamw(LadderPlace& place, int /*cores*/) { place.plain.adamw = false; }
void store_bf16(LadderPlace& place, int /*cores*/) { place.type = DType::bf16; }
void fuse_norms(LadderPlace& place, int /*cores*/) { place.plain.norm = false; }
void tile_attention(LadderPlace& place, int /*cores*/) { place.attention = AttentionWeights::tiled; }
void fuse_epilogues(LadderPlace& place, int /*cores*/) { place.plain.epilogues = false; }
void pad_vocabulary(LadderPlace& place, int /*cores*/) { place.shape.vocabulary = round_up(place.shape.vocabulary, 64); }
void enlarge_batch(LadderPlace& place, int /*cores*/) { place.shape.samples *= 4; }
void take_cores(LadderPlace& place, int cores) {
  place.ranks = cores;
  place.shape.samples *= cores;
}

constexpr std::array<Rung, 12> every_rung{
    {{0, "baseline", "plain kernels, fp32", "", nullptr},
     {1, "mask on the fly", "kernels.mask=computed", "", &compute_mask},
     {2, "best products", "kernels.products=best", "", &multiply_best},
     {3, "fused AdamW", "kernels.adamw=fused", "", &fuse_adamw},
     {4, "pinned memory", "", "batches are read where they lie: there is no device to copy them to", nullptr},
     {5, "bfloat16", "train.dtype=bf16", "", &store_bf16},
     {6, "fused norms", "kernels.norm=fused", "", &fuse_norms},
     {7, "tiled attention", "kernels.attention=tiled", "", &tile_attention},
     {8, "fused epilogues", "kernels.epilogues=true", "", &fuse_epilogues},
     {9, "padded vocabulary", "model.vocab_size", "", &pad_vocabulary},
     {10, "batch x 4", "model.batch_size", "", &enlarge_batch},
     {11, "a rank a core", "--ranks", "", &take_cores}}};

std::optional<int> rung_from(std::string_view text) {
  const auto number = number_from<int>(text);
  return number && *number >= 0 && *number < static_cast<int>(every_rung.size()) ? number : std::nullopt;
}

}  // namespace

LadderPlace foot_of(const StepShape& shape) {
  LadderPlace place{.shape = shape};
  if (shape.vocabulary == gpt2_padded) place.shape.vocabulary = gpt2_vocabulary;
  return place;
}

std::span<const Rung> rungs() { return every_rung; }

std::vector<Rung> rungs_from(std::string_view text, std::vector<Problem>& problems) {
  std::array<bool, every_rung.size()> named{};
  named[0] = true;
  for (std::string_view rest = text; !rest.empty() || text.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    const auto first = rung_from(part.substr(0, part.find('-')));
    const auto last = part.find('-') == std::string_view::npos ? first : rung_from(part.substr(part.find('-') + 1));
    if (!first || !last || *last < *first || rest.back() == ',') {
      problems.push_back(
          {fmt::format("--rungs {}: must be numbers and ranges from 0 to {}", text, every_rung.size() - 1), "--rungs 0-3,7"});
      return {};
    }
    for (int number = *first; number <= *last; ++number) named[static_cast<std::size_t>(number)] = true;
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
  }
  std::vector<Rung> chosen;
  for (const Rung& rung : every_rung) {
    if (named[static_cast<std::size_t>(rung.number)]) chosen.push_back(rung);
  }
  return chosen;
}

}  // namespace lockstep::lab
