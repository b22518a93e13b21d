#pragma once

// Adam's and AdamW's step in double, from gradients to weights, and the wrong ways to make it.

#include <cstdint>

#include "lab/against/dump.h"

namespace lockstep::lab::against {

/// Ways to clip. by_place: by the norm of one rank's file. all_files: by that of all stages' and tensor ranks' files, copies too.
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
/// Ways of weight decay. other_rule: Adam's for AdamW's, or the reverse. behind: of weights that the moments have already
/// changed.
enum class Decay : std::uint8_t { as_told, all, none, other_rule, without_rate, twice, behind };

struct UpdateWays {
  Clip clip = Clip::right;
  OnlyPart part;  ///< for Clip::by_part and by_place: the rows of each tensor, or the rank, that the norm is taken of
  Dimension part_of = tp;
  bool copies = true;  ///< Clip::by_place: whether tensors count that other ranks' files have too
  Decay decay = Decay::as_told;
  bool mean_corrected = true, square_corrected = true;  ///< whether the moments are corrected for their start at zero
  double correction_shift = 0;                          ///< added to the update's number in that correction
  bool eps_inside_root = false, eps_before_correction = false;
  double rate_times = 1;
  int times = 1;  ///< how often the update is made
};

/// A published tensor, its gradient and its moments before the update.
struct Before {
  Values weights, gradient, exp_avg, exp_avg_sq;
  bool decays = true;
};
struct After {
  Values weights, exp_avg, exp_avg_sq;
};

/// The facts that the rule needs and the dump lacks; empty: it lacks none.
std::string missing_facts(const Facts& facts);

/// One tensor's update. `factor` is the factor of clipping for the gradient. The facts that missing_facts() asks for are given.
After update(const Before& before, const Facts& facts, const UpdateWays& ways, double factor);

/// The factor of clipping for gradients of this norm; 1 without clipping.
double clip_factor(double norm, const Facts& facts);

}  // namespace lockstep::lab::against
