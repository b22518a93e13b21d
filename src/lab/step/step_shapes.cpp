#include "lab/step/step_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace lockstep::lab {
namespace {

constexpr std::array<StepShape, 9> shapes{{{"tiny", 4, 4, 128, 65, 12, 64},
                                           {"char-12x64", 6, 6, 384, 65, 12, 64},
                                           {"char", 6, 6, 384, 65, 64, 256},
                                           {"gpt2:4x64", 12, 12, 768, 50304, 4, 64},
                                           {"gpt2:8x256", 12, 12, 768, 50304, 8, 256},
                                           {"gpt2:1x1024", 12, 12, 768, 50304, 1, 1024},
                                           {"gpt2:4x1024", 12, 12, 768, 50304, 4, 1024},
                                           {"llama:4x64", 12, 12, 768, 50304, 4, 64, true},
                                           {"llama:1x1024", 12, 12, 768, 50304, 1, 1024, true}}};

}  // namespace

std::vector<std::string> step_shape_names() {
  std::vector<std::string> names;
  for (const StepShape& shape : shapes) names.emplace_back(shape.name);
  return names;
}

const StepShape& step_shape(std::string_view name) {
  const auto* shape = std::ranges::find(shapes, name, &StepShape::name);
  if (shape != shapes.end()) return *shape;
  throw UserError(fmt::format("shape '{}' is not known", name),
                  fmt::format("choose one of {}", fmt::join(step_shape_names(), ", ")));
}

arch::ModelConfig model_of(const StepShape& shape) {
  arch::ModelConfig config;
  config.layers = shape.layers;
  config.heads = config.kv_heads = shape.heads;
  config.width = shape.width;
  config.head_size = shape.width / shape.heads;
  config.gated = shape.llama;
  config.ffn_width = arch::usual_ffn_width(shape.width, shape.llama);
  config.block_size = shape.positions;
  config.vocabulary = shape.vocabulary;
  if (shape.llama) {
    config.norm = arch::NormKind::rmsnorm;
    config.position = arch::PositionKind::rope;
    config.activation = arch::ActivationKind::silu;
    return config;
  }
  config.activation = arch::ActivationKind::gelu_tanh;
  config.bias = config.qkv_bias = true;
  return config;
}

}  // namespace lockstep::lab
