#include "arch/flops.h"

#include "arch/parameters.h"

namespace lockstep::arch {

double training_flops_per_token(const ModelConfig& config, std::int64_t positions) {
  const double attention =
      12.0 * static_cast<double>(config.layers * config.heads * config.head_size) * static_cast<double>(positions);
  const ParameterCounts counts = count_parameters(config);
  return 6.0 * static_cast<double>(counts.without_positions - counts.looked_up) + attention;
}

double block_flops_per_token(const ModelConfig& config, std::int64_t positions) {
  ModelConfig less = config;
  --less.layers;
  return training_flops_per_token(config, positions) - training_flops_per_token(less, positions);
}

}  // namespace lockstep::arch
