#pragma once

// The products that a training step of a known model consists of.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::lab {

/// A layer y [tokens, out] = x [tokens, in] w^T and how often a step runs it in each direction.
struct LayerShape {
  std::string name;
  std::int64_t tokens, out, in;
  std::int64_t calls;
  bool forward = true, backward = true;  ///< the directions that a step takes it in
};

/// Of a feed-forward layer with a gate, `gated` wide, that a step runs `calls` times.
std::vector<LayerShape> gated_layers(std::int64_t tokens, std::int64_t width, std::int64_t gated, std::int64_t calls);

/// Products of a shape that steps are timed on (step_shapes). Throws UserError for another name.
std::vector<LayerShape> layer_shapes(std::string_view model);

}  // namespace lockstep::lab
