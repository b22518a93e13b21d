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
};

constexpr std::array<Model, 6> models{{{"tiny", 4, 128, 65, 768},
                                       {"char-12x64", 6, 384, 65, 768},
                                       {"char", 6, 384, 65, 16384},
                                       {"gpt2:4x64", 12, 768, 50304, 256},
                                       {"gpt2:1x1024", 12, 768, 50304, 1024},
                                       {"gpt2:4x1024", 12, 768, 50304, 4096}}};
// A large vocabulary's logits exist for so many tokens at a time.
constexpr std::int64_t head_chunk = 256;
constexpr std::int64_t large_vocabulary = 4096;

}  // namespace

std::vector<std::string> gemm_models() {
  std::vector<std::string> names;
  for (const Model& model : models) names.emplace_back(model.name);
  return names;
}

std::vector<LayerShape> layer_shapes(std::string_view name) {
  const auto* model = std::ranges::find(models, name, &Model::name);
  if (model == models.end())
    throw UserError(fmt::format("shape '{}' is not known", name),
                    fmt::format("choose one of {}", fmt::join(gemm_models(), ", ")));
  const std::int64_t w = model->width, t = model->tokens;
  const std::int64_t chunk = model->vocabulary >= large_vocabulary ? std::min(t, head_chunk) : t;
  return {{"qkv", t, 3 * w, w, model->layers},
          {"attention out", t, w, w, model->layers},
          {"mlp up", t, 4 * w, w, model->layers},
          {"mlp down", t, w, 4 * w, model->layers},
          {"head", chunk, model->vocabulary, w, t / chunk}};
}

}  // namespace lockstep::lab
