#pragma once

// The table of shapes that every bench times. They are nanoGPT's and llm.c's models at sizes that people train without a GPU, and
// a Llama of GPT-2's size. A few are large enough to keep a GPU busy. Also the products of their training steps.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "arch/config.h"

namespace lockstep::lab {

struct StepShape {
  std::string_view name;
  std::int64_t layers = 0, heads = 0, width = 0, vocabulary = 0, samples = 0, positions = 0;
  bool llama = false;
  std::int64_t kv_heads = 0, ffn_width = 0;  ///< 0: as many as heads, and the width that is usual
  std::int64_t tokens() const { return samples * positions; }
};

/// tiny, char-12x64, char, gpt2:4x64, gpt2:8x256, gpt2:1x1024, gpt2:4x1024, llama:4x64, llama:1x1024; for GPUs seed:64x1024,
/// gpt2:64x1024, gpt2-xl:4x1024, llama1b:4x4096, qwen0.5b:16x1024, qwen1.5b:9x2048.
std::vector<std::string> step_shape_names();
/// The shape of this name. Throws UserError that names the known ones.
const StepShape& step_shape(std::string_view name);
/// The model of a shape. GPT-2 has biases everywhere and tanh GELU; Llama has RMSNorm, rotary positions, SwiGLU and no bias. Both
/// have a tied head, no dropout and as many positions as the shape.
arch::ModelConfig model_of(const StepShape& shape);

/// A layer y [tokens, out] = x [tokens, in] w^T, and how often a step runs it in each direction.
struct LayerShape {
  std::string name;
  std::int64_t tokens, out, in;
  std::int64_t calls;
  bool forward = true, backward = true;  ///< whether a step runs it in this direction
};
/// The layers of a feed-forward layer with a gate, `gated` wide, that a step runs `calls` times.
std::vector<LayerShape> gated_layers(std::int64_t tokens, std::int64_t width, std::int64_t gated, std::int64_t calls);
/// The products of a step of the named shape. Throws UserError as step_shape() does.
std::vector<LayerShape> layer_shapes(std::string_view name);

}  // namespace lockstep::lab
