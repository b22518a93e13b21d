#pragma once

// How much of the exchange of gradients a step hides behind its backward pass. Steps that wait for every bucket and steps that go
// on are measured in turns.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/text/answer.h"
#include "comm/communicator.h"
#include "device/runtime.h"
#include "lab/step/step_shapes.h"
#include "ops/ops.h"

namespace lockstep::lab {

struct OverlapOptions {
  int rounds = 7;                        ///< each has a step of either kind
  std::int64_t bucket_bytes = 25 << 20;  ///< parallel.bucket_bytes
};

/// Seconds are medians over the rounds.
struct OverlapReport {
  StepShape shape;
  int ranks = 1;
  std::int64_t bucket_bytes = 0, gradient_bytes = 0;
  double communication = 0;  ///< waiting for reductions, each awaited at once: of the rank that waits least
  double cover = 0;          ///< the backward pass of those steps behind the first unit's complete gradient: mean of the ranks
  double exposed = 0;        ///< waiting for reductions when backward goes on: mean of the ranks
  double step = 0, waiting_step = 0;  ///< whole steps, with and without overlap
  double noise = 0;                   ///< of communication - exposed: the median distance of the rounds from their medians

  /// The most seconds that can be hidden.
  double hideable() const { return std::min(communication, cover); }
  double hidden() const { return std::clamp(communication - exposed, 0.0, std::max(0.0, hideable())); }
  /// Whether communication takes no longer than the computation beside it, so that a network keeps up.
  bool keeps_up() const { return communication <= cover; }
  /// How much shorter steps with overlap are than steps that wait: another measure of what is hidden.
  double saved() const { return waiting_step - step; }
  /// None where there is nothing to hide, or no more than the noise.
  std::optional<double> hidden_share() const { return hideable() > noise ? std::optional(hidden() / hideable()) : std::nullopt; }
};

/// Each rank of `world` takes its part of the shape's samples; collective, the report is rank 0's. Throws UserError when there is
/// one rank, or the samples do not divide by the ranks.
OverlapReport bench_overlap(const StepShape& shape, const OverlapOptions& options, Runtime& runtime, ops::Ops& ops,
                            comm::Communicator& world);

Answer answer_of(const OverlapReport& report);

}  // namespace lockstep::lab
