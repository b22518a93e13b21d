#include "train/lr_schedule.h"

#include <algorithm>
#include <limits>
#include <numbers>

#include "base/math/elementary.h"

namespace lockstep::train {
namespace {

double cosine(double progress) { return 0.5 * (1.0 + circle_point(std::numbers::pi * progress).cosine); }

/// Share of the way from `begin` to `end`, in [0, 1]: all of it where that has no iteration.
double progress(std::int64_t it, std::int64_t begin, std::int64_t end) {
  if (end <= begin) return 1;
  return std::clamp(static_cast<double>(it - begin) / static_cast<double>(end - begin), 0.0, 1.0);
}

}  // namespace

// A share has no exact double: 0.29 of 100 would be a little less than 29.
std::int64_t decaying_iterations(double wsd_decay, std::int64_t max_iters) {
  constexpr double ulps = 1 + 2 * std::numeric_limits<double>::epsilon();
  return static_cast<std::int64_t>(wsd_decay * static_cast<double>(max_iters) * ulps);
}

double LrSchedule::operator()(std::int64_t it) const {
  if (!decay) return learning_rate;
  if (it < warmup) {
    return kind == Kind::wordplay ? learning_rate * static_cast<double>(it) / static_cast<double>(warmup)
                                  : learning_rate * static_cast<double>(it + 1) / static_cast<double>(warmup + 1);
  }
  const double range = learning_rate - min_lr;
  switch (kind) {
    case Kind::wordplay:
    case Kind::nanogpt:
      return it > decay_iters ? min_lr : min_lr + range * cosine(progress(it, warmup, decay_iters));
    case Kind::cosine:
      return min_lr + range * cosine(progress(it, warmup, max_iters));
    case Kind::linear:
      return min_lr + range * (1.0 - progress(it, warmup, max_iters));
    case Kind::wsd: {
      const std::int64_t begin = std::max(warmup, max_iters - decaying_iterations(wsd_decay, max_iters));
      if (begin >= max_iters) return learning_rate;  // a decay of no iteration
      return min_lr + range * (1.0 - progress(it, begin, max_iters));
    }
  }
  return learning_rate;
}

bool ends_with_run(LrSchedule::Kind kind) { return kind != LrSchedule::Kind::wordplay && kind != LrSchedule::Kind::nanogpt; }

}  // namespace lockstep::train
