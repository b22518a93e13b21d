#pragma once

// One micro-batch of token windows.

#include <cstdint>

#include "tensor/tensor.h"

namespace lockstep::data {

/// Views into its source's memory (loader.h says how long they hold).
struct Batch {
  Tensor tokens;                   ///< [B*T] i32, ids below the vocabulary
  Tensor targets;                  ///< [B*T] i32, the next token; -1 is ignored
  std::int64_t samples = 0;        ///< B
  std::int64_t positions = 0;      ///< T
  std::int64_t target_count = 0;   ///< targets that are not -1
  std::uint64_t first_sample = 0;  ///< global number of row 0; row b is first_sample + b
  /// [B] f64 on the host: log-probabilities of the samples' targets by a reference, where samples are judged whole, in groups.
  /// Then target_count is the number of groups. Empty otherwise.
  Tensor references = {};
  /// [B, T] i32: where the document of each position begins; empty where samples are one document, and in what a source makes.
  Tensor starts = {};
  /// [B, T] i32: where what each position sees begins in layers with a window; as empty as `starts`.
  Tensor window_starts = {};
};

}  // namespace lockstep::data
