#pragma once

// The angles of rotary positions. They are computed in one fixed way, so that machines and C libraries agree on their bits.
// Frequencies are computed in double and rounded to float, as published models were trained with. An angle is an exact product
// with the position. Cosine and sine come from our own sequence of operations in double and are rounded once.

#include <span>
#include <vector>

#include "arch/config.h"

namespace lockstep::arch {

/// Radians a position for each of the D/2 pairs: theta^(-2i/D), scaled as config.rope says. transformers' modeling_rope_utils.py
/// has the same formulas.
std::vector<float> rotary_frequencies(const ModelConfig& config);
/// The frequencies of layers that turn by local_theta.
std::vector<float> local_rotary_frequencies(const ModelConfig& config);

/// Cosines, then sines, of `position`'s angles, times `length`: `angles` [D] for `frequencies` [D/2].
void rotary_angles(std::span<float> angles, std::span<const float> frequencies, std::int64_t position, double length = 1);

}  // namespace lockstep::arch
