#pragma once

// Lists of actions for a rank that tests run and check.

#include <vector>

#include "layout/pipeline/schedules.h"

namespace lockstep::support {

using Kind = layout::Action::Kind;

inline layout::Action action(Kind kind, int microbatch, int chunk = 0) { return {kind, Microbatch{microbatch}, chunk}; }

/// Forward and backward in turn, as training on one rank has it.
inline std::vector<layout::Action> in_turn(int microbatches) {
  return actions_of(*layout::find_schedule("1f1b"), {.microbatches = microbatches}).front();
}
inline std::vector<layout::Action> gpipe(int microbatches) {
  return actions_of(*layout::find_schedule("gpipe"), {.microbatches = microbatches}).front();
}

/// `ahead` forward passes, then one forward, one backward, on one rank.
inline std::vector<layout::Action> running_ahead(int microbatches, int ahead) {
  std::vector<layout::Action> actions;
  for (int m = 0; m < microbatches + ahead; ++m) {
    if (m < microbatches) actions.push_back(action(Kind::forward, m));
    if (m >= ahead) actions.push_back(action(Kind::backward, m - ahead));
  }
  return actions;
}

/// Forward and backward in turn, the gradients of weights `late` micro-batches later.
inline std::vector<layout::Action> late_weights(int microbatches, int late) {
  std::vector<layout::Action> actions;
  for (int m = 0; m < microbatches + late; ++m) {
    if (m < microbatches) actions.push_back(action(Kind::forward, m));
    if (m < microbatches) actions.push_back(action(Kind::input_backward, m));
    if (m >= late) actions.push_back(action(Kind::weight_backward, m - late));
  }
  return actions;
}

/// All forward, then all gradients of inputs, then all of weights.
inline std::vector<layout::Action> all_apart(int microbatches) {
  std::vector<layout::Action> actions;
  for (const Kind kind : {Kind::forward, Kind::input_backward, Kind::weight_backward}) {
    for (int m = 0; m < microbatches; ++m) actions.push_back(action(kind, m));
  }
  return actions;
}

/// Two chunks that hand over to each other, `live` micro-batches at a time.
inline std::vector<layout::Action> two_chunks(int microbatches, int live, bool late_weights = false) {
  std::vector<layout::Action> actions;
  for (int first = 0; first < microbatches; first += live) {
    for (int m = first; m < first + live; ++m) {
      for (const int chunk : {0, 1}) actions.push_back(action(Kind::forward, m, chunk));
    }
    for (int m = first; m < first + live; ++m) {
      for (const int chunk : {1, 0}) actions.push_back(action(late_weights ? Kind::input_backward : Kind::backward, m, chunk));
    }
    if (!late_weights) continue;
    for (const int chunk : {1, 0}) {
      for (int m = first; m < first + live; ++m) actions.push_back(action(Kind::weight_backward, m, chunk));
    }
  }
  return actions;
}

/// All ways of making activations again that differ for a chunk of three blocks.
inline const std::vector<layout::Recompute>& recomputations() {
  using enum layout::Recompute::Kind;
  static const std::vector<layout::Recompute> all{{selective}, {full}, {full, 2}, {full, 3}};
  return all;
}

}  // namespace lockstep::support
