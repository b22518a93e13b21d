#include "arch/step_sizes.h"

#include <fmt/format.h>

#include <string>

namespace lockstep::arch {
namespace {

constexpr double most_tokens = 1e12;  // times as many ranks as there may be
constexpr double most_bytes = 1e18;   // about; what is counted beside them is less

std::string text_of(const StepSizes& sizes, std::int64_t microbatches) {
  const std::string one = fmt::format("{} x {} tokens", sizes.samples, sizes.positions);
  return microbatches > 1 ? fmt::format("{} micro-batches of {}", microbatches, one) : one;
}

double bytes_of_token(const ModelConfig& config, const StepSizes& sizes) {
  const double heads = static_cast<double>(config.heads + config.kv_heads) * static_cast<double>(config.head_size);
  const double block = 16 * static_cast<double>(config.width) + 6 * (heads + static_cast<double>(config.ffn_width));
  const double scores = static_cast<double>(config.heads) * static_cast<double>(sizes.positions);
  return 4 * (static_cast<double>(config.layers) * block + scores + static_cast<double>(config.vocabulary));
}

}  // namespace

std::vector<Problem> check(const ModelConfig& config, const StepSizes& sizes) {
  const double tokens = static_cast<double>(sizes.samples) * static_cast<double>(sizes.positions);
  if (const double all = tokens * static_cast<double>(sizes.microbatches); all > most_tokens) {
    return {{fmt::format("{} are {:.1e} tokens of a step and rank: at most {:.0e}", text_of(sizes, sizes.microbatches), all,
                         most_tokens),
             "fewer samples, shorter ones or fewer micro-batches"}};
  }
  const double bytes = bytes_of_token(config, sizes) * tokens * static_cast<double>(sizes.kept);
  if (bytes <= most_bytes) return {};
  return {{fmt::format("{} of this model have activations of about {:.1e} bytes: at most {:.0e}", text_of(sizes, sizes.kept),
                       bytes, most_bytes),
           "fewer samples, or shorter ones"}};
}

}  // namespace lockstep::arch
