#pragma once

// The learning rate as a function of the iteration. All schedules warm up linearly over `warmup` iterations.

#include <cstdint>

namespace lockstep::train {

struct LrSchedule {
  enum class Kind : std::uint8_t {
    wordplay,  ///< lr * it / warmup, then cosine to min_lr at decay_iters: lr is 0 at iteration 0
    nanogpt,   ///< lr * (it + 1) / (warmup + 1), then cosine to min_lr at decay_iters
    cosine,    ///< as nanogpt, but down to min_lr at max_iters, which is behind the run's last iteration
    linear,    ///< straight down to min_lr at max_iters
    wsd,       ///< warm-up, stable, and in the run's last iterations straight down to min_lr at max_iters (Hu et al. 2024)
  };
  Kind kind = Kind::wordplay;
  bool decay = true;  ///< false: constant, no warm-up either (optimizer.decay_lr=false)
  double learning_rate = 6e-4;
  double min_lr = 6e-5;
  std::int64_t warmup = 100;
  std::int64_t decay_iters = 600000;
  std::int64_t max_iters = 1000;
  double wsd_decay = 0.1;  ///< share of the run in which wsd decays, in whole iterations; where that is none, it never decays

  /// Learning rate of iteration `it`, counted from 0.
  double operator()(std::int64_t it) const;
};

/// The iterations of a run of `max_iters` in which wsd decays. 0: it never does.
std::int64_t decaying_iterations(double wsd_decay, std::int64_t max_iters);
/// Whether a schedule's rates depend on the number of steps, because its decay ends with the run.
bool ends_with_run(LrSchedule::Kind kind);

}  // namespace lockstep::train
