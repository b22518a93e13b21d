#pragma once

// Pictures of a pipeline's schedule: a row for each rank, time to the right, the number of its micro-batch in each pass.

#include <string>

#include "layout/pipeline/simulation.h"

namespace lockstep::app {

/// Draws for a terminal of `columns` columns; a long time goes on below. The shortest pass has one cell. Passes of a rank's first
/// chunk have capitals, those of its other chunks small letters. F is forward, B backward, I and W the gradients of inputs and of
/// weights apart.
std::string draw_text(const layout::Timeline& timeline, int columns);
/// A page of its own, or a part of one, in the reader's light or dark colours. `title` and `subtitle` stand above it.
std::string draw_svg(const layout::Timeline& timeline, const std::string& title, const std::string& subtitle);

}  // namespace lockstep::app
