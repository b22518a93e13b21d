#include "lab/step/step_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace lockstep::lab {
namespace {

constexpr std::array<StepShape, 15> shapes{{{"tiny", 4, 4, 128, 65, 12, 64},
                                            {"char-12x64", 6, 6, 384, 65, 12, 64},
                                            {"char", 6, 6, 384, 65, 64, 256},
                                            {"gpt2:4x64", 12, 12, 768, 50304, 4, 64},
                                            {"gpt2:8x256", 12, 12, 768, 50304, 8, 256},
                                            {"gpt2:1x1024", 12, 12, 768, 50304, 1, 1024},
                                            {"gpt2:4x1024", 12, 12, 768, 50304, 4, 1024},
                                            {"llama:4x64", 12, 12, 768, 50304, 4, 64, true},
                                            {"llama:1x1024", 12, 12, 768, 50304, 1, 1024, true},
                                            {"seed:64x1024", 12, 12, 768, 65, 64, 1024},
                                            {"gpt2:64x1024", 12, 12, 768, 50304, 64, 1024},
                                            {"gpt2-xl:4x1024", 48, 25, 1600, 50304, 4, 1024},
                                            {"llama1b:4x4096", 16, 32, 2048, 128256, 4, 4096, true, 8, 8192},
                                            {"qwen0.5b:16x1024", 24, 14, 896, 151936, 16, 1024, true, 2, 4864},
                                            {"qwen1.5b:9x2048", 28, 12, 1536, 151936, 9, 2048, true, 2, 8960}}};

// A large vocabulary's logits exist for so many tokens at a time.
constexpr std::int64_t head_chunk = 256;
constexpr std::int64_t large_vocabulary = 4096;

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
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads > 0 ? shape.kv_heads : shape.heads;
  config.width = shape.width;
  config.head_size = shape.width / shape.heads;
  config.gated = shape.llama;
  config.ffn_width = shape.ffn_width > 0 ? shape.ffn_width : arch::usual_ffn_width(shape.width, shape.llama);
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

std::vector<LayerShape> gated_layers(std::int64_t tokens, std::int64_t width, std::int64_t gated, std::int64_t calls) {
  // A gate is a forward product of its own; its gradients come with those of what it multiplies.
  return {{"mlp gate, up", tokens, gated, width, 2 * calls, true, false},
          {"mlp gate, up", tokens, 2 * gated, width, calls, false, true},
          {"mlp down", tokens, width, gated, calls}};
}

std::vector<LayerShape> layer_shapes(std::string_view name) {
  const StepShape& shape = step_shape(name);
  const arch::ModelConfig model = model_of(shape);
  const std::int64_t w = model.width, t = shape.tokens();
  const std::int64_t chunk = model.vocabulary >= large_vocabulary ? std::min(t, head_chunk) : t;
  const std::int64_t heads = (model.heads + 2 * model.kv_heads) * model.head_size;
  std::vector<LayerShape> layers{{"qkv", t, heads, w, model.layers}, {"attention out", t, w, w, model.layers}};
  if (model.gated) {
    for (LayerShape& layer : gated_layers(t, w, model.ffn_width, model.layers)) layers.push_back(std::move(layer));
  } else {
    layers.push_back({"mlp up", t, model.ffn_width, w, model.layers});
    layers.push_back({"mlp down", t, w, model.ffn_width, model.layers});
  }
  layers.push_back({"head", chunk, model.vocabulary, w, t / chunk});
  return layers;
}

}  // namespace lockstep::lab
