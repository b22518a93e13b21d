#include "lab/gemm_shapes.h"

#include <algorithm>
#include <utility>

#include "lab/step/step_shapes.h"

namespace lockstep::lab {
namespace {

// A large vocabulary's logits exist for so many tokens at a time.
constexpr std::int64_t head_chunk = 256;
constexpr std::int64_t large_vocabulary = 4096;

}  // namespace

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
