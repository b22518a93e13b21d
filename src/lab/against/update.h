#pragma once

// Adam's and AdamW's step in double, from gradients to weights, and the wrong ways to make it.

#include <cstdint>

#include "lab/against/dump.h"

namespace lockstep::lab::against {

/// by_place: by the gradients of one rank's file. all_files: by those of all stages' and tensor ranks' files, copies too.
enum class Clip : std::uint8_t {
  right,
  none,
  by_tensor,
  by_element,
  by_part,
  by_place,
  before_unscaling,
  copies_counted,
  all_files
};
/// other_rule: Adam's for AdamW's, or the other way round. behind: of the weights that the moments have changed.
enum class Decay : std::uint8_t { as_told, all, none, other_rule, without_rate, twice, behind };

struct UpdateWays {
  Clip clip = Clip::right;
  OnlyPart part;  ///< of each tensor's rows, or the rank's number: what Clip::by_part and by_place take the norm of
  Dimension part_of = tp;
  bool copies = true;  ///< that other ranks' files have too count in Clip::by_place
  Decay decay = Decay::as_told;
  bool mean_corrected = true, square_corrected = true;  ///< the moments, for their start at zero
  double correction_shift = 0;                          ///< of the update's number in it
  bool eps_inside_root = false, eps_before_correction = false;
  double rate_times = 1;
  int times = 1;  ///< how often the update is made
};

/// A published tensor before the update.
struct Before {
  Values weights, gradient, exp_avg, exp_avg_sq;
  bool decays = true;
};
struct After {
  Values weights, exp_avg, exp_avg_sq;
};

/// What the rule needs and the facts do not have; empty where they have all.
std::string missing_facts(const Facts& facts);

/// One tensor's update; `factor` is what clipping multiplies the gradient by. Facts that are needed are there.
After update(const Before& before, const Facts& facts, const UpdateWays& ways, double factor);

/// What the gradients' norm makes of them: 1 without clipping.
double clip_factor(double norm, const Facts& facts);

}  // namespace lockstep::lab::against
