#pragma once

// Norms of the oracle's walk.

#include <cstdint>
#include <vector>

#include "lab/against/oracle.h"
#include "lab/against/tape.h"

namespace lockstep::lab::against {

/// Columns of a matrix in `groups` of `size`, each normalised by itself, with one gain [size] and bias (or null) for all.
struct NormedColumns {
  std::int64_t first = 0, groups = 1, size = 0;
  Node *gain = nullptr, *bias = nullptr;
};

/// Normalises `columns` of x; its other columns stay as they are. `centred`: LayerNorm, else RMSNorm.
Node& normalise(const Question& question, Tape& tape, Node& x, const std::vector<NormedColumns>& columns, bool centred);

/// Whether position t counts in gradients of vectors that all tensor ranks hold. Ranks may divide the positions.
inline bool counts_position(const Question& question, const Tape& tape, std::int64_t t) {
  return question.ways.norm_positions.has(t, question.batch.columns) && tape.keeps(at(t));
}

}  // namespace lockstep::lab::against
