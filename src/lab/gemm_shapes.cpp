#include "lab/gemm_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace lockstep::lab {
namespace {

struct Model {
  std::string_view name;
  std::int64_t layers, width, vocabulary, tokens;
  std::int64_t gated = 0;  // the width of a gated feed-forward; 0: 4 x width without a gate
};

constexpr std::array<Model, 8> models{{{"tiny", 4, 128, 65, 768},
                                       {"char-12x64", 6, 384, 65, 768},
                                       {"char", 6, 384, 65, 16384},
                                       {"gpt2:4x64", 12, 768, 50304, 256},
                                       {"gpt2:1x1024", 12, 768, 50304, 1024},
                                       {"gpt2:4x1024", 12, 768, 50304, 4096},
                                       {"llama:4x64", 12, 768, 50304, 256, 2048},
                                       {"llama:1x1024", 12, 768, 50304, 1024, 2048}}};
// A large vocabulary's logits exist for so many tokens at a time.
constexpr std::int64_t head_chunk = 256;
constexpr std::int64_t large_vocabulary = 4096;

}  // namespace

std::vector<std::string> gemm_models() {
  std::vector<std::string> names;
  for (const Model& model : models) names.emplace_back(model.name);
  return names;
}

std::vector<LayerShape> gated_layers(std::int64_t tokens, std::int64_t width, std::int64_t gated, std::int64_t calls) {
  // A gate is a forward product of its own; its gradients come with those of what it multiplies.
  return {{"mlp gate, up", tokens, gated, width, 2 * calls, true, false},
          {"mlp gate, up", tokens, 2 * gated, width, calls, false, true},
          {"mlp down", tokens, width, gated, calls}};
}

std::vector<LayerShape> layer_shapes(std::string_view name) {
  const auto* model = std::ranges::find(models, name, &Model::name);
  if (model == models.end())
    throw UserError(fmt::format("shape '{}' is not known", name),
                    fmt::format("choose one of {}", fmt::join(gemm_models(), ", ")));
  const std::int64_t w = model->width, t = model->tokens;
  const std::int64_t chunk = model->vocabulary >= large_vocabulary ? std::min(t, head_chunk) : t;
  std::vector<LayerShape> layers{{"qkv", t, 3 * w, w, model->layers}, {"attention out", t, w, w, model->layers}};
  if (model->gated > 0) {
    for (LayerShape& layer : gated_layers(t, w, model->gated, model->layers)) layers.push_back(std::move(layer));
  } else {
    layers.push_back({"mlp up", t, 4 * w, w, model->layers});
    layers.push_back({"mlp down", t, w, 4 * w, model->layers});
  }
  layers.push_back({"head", chunk, model->vocabulary, w, t / chunk});
  return layers;
}

}  // namespace lockstep::lab
