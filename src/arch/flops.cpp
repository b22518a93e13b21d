#include "arch/flops.h"

#include "arch/parameters.h"

namespace lockstep::arch {

double training_flops_per_token(const ModelConfig& config, std::int64_t positions) {
  const double attention =
      12.0 * static_cast<double>(config.layers * config.heads * config.head_size) * static_cast<double>(positions);
  return 6.0 * static_cast<double>(count_parameters(config).without_positions) + attention;
}

}  // namespace lockstep::arch
