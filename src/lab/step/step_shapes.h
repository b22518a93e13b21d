#pragma once

// The shapes that training steps are timed on: the models of nanoGPT and llm.c at the sizes that people train without a GPU, and
// a Llama of GPT-2's size.

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
  std::int64_t tokens() const { return samples * positions; }
};

/// tiny, char-12x64, char, gpt2:4x64, gpt2:8x256, gpt2:1x1024, gpt2:4x1024, llama:4x64, llama:1x1024.
std::vector<std::string> step_shape_names();
/// Throws UserError that names the known ones.
const StepShape& step_shape(std::string_view name);
/// GPT-2 with biases everywhere and tanh GELU, or Llama (RMSNorm, rotary positions, SwiGLU, as many key/value heads as heads, no
/// bias); a tied head, no dropout and as many positions as the shape is long.
arch::ModelConfig model_of(const StepShape& shape);

}  // namespace lockstep::lab
