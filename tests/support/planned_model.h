#pragma once

// A small model whose products divide evenly: what the planner says of it can be told by hand.

#include "arch/config.h"

namespace lockstep::support {

inline arch::ModelConfig planned_model(std::int64_t layers) {
  arch::ModelConfig model;
  model.layers = layers;
  model.heads = model.kv_heads = 8;
  model.width = 512;
  model.head_size = 64;
  model.ffn_width = 2048;
  model.block_size = 256;
  model.vocabulary = 1024;
  return model;
}

}  // namespace lockstep::support
