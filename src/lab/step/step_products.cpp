#include "lab/step/step_products.h"

#include <algorithm>

#include "model/head.h"

namespace lockstep::lab {
namespace {

// A layer's three products over `rows` tokens.
void add_layer(std::vector<StepProduct>& products, std::int64_t rows, std::int64_t out, std::int64_t in, double count) {
  for (const ProductRole role : {ProductRole::forward, ProductRole::input_gradient, ProductRole::weight_gradient}) {
    products.push_back({role, rows, out, in, count});
  }
}

}  // namespace

std::string_view name_of(ProductRole role) {
  switch (role) {
    case ProductRole::forward:
      return "forward";
    case ProductRole::input_gradient:
      return "input gradient";
    case ProductRole::weight_gradient:
      return "weight gradient";
    case ProductRole::scores:
      return "attention scores";
    case ProductRole::values:
      return "attention values";
  }
  return "";
}

std::vector<StepProduct> step_products(const arch::ModelConfig& config, std::int64_t samples, std::int64_t positions) {
  const layout::ShardedDims dims = arch::whole_dims(config);
  const std::int64_t rows = samples * positions;
  const auto layers = static_cast<double>(config.layers);
  std::vector<StepProduct> products;
  add_layer(products, rows, dims.attention_width() + 2 * dims.kv_width(), config.width, layers);
  add_layer(products, rows, config.width, dims.attention_width(), layers);
  // A gate is a forward product of its own; its gradients come with those of what it multiplies.
  products.push_back({ProductRole::forward, rows, dims.ffn_width, config.width, config.gated ? 2 * layers : layers});
  for (const ProductRole role : {ProductRole::input_gradient, ProductRole::weight_gradient}) {
    products.push_back({role, rows, dims.up_width(), config.width, layers});
  }
  add_layer(products, rows, config.width, config.ffn_width, layers);

  const std::int64_t chunk = model::logit_rows(dims, rows);
  add_layer(products, chunk, config.vocabulary, config.width, static_cast<double>(rows / chunk));
  if (rows % chunk != 0) add_layer(products, rows % chunk, config.vocabulary, config.width, 1);

  // Query i sees i + 1 of the keys.
  const double causal = static_cast<double>(positions + 1) / static_cast<double>(2 * positions);
  const double heads = layers * static_cast<double>(samples * config.heads);
  products.push_back({ProductRole::scores, positions, positions, config.head_size, 2 * heads * causal});
  products.push_back({ProductRole::values, positions, config.head_size, positions, 4 * heads * causal});
  return products;
}

}  // namespace lockstep::lab
