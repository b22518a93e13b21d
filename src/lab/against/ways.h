#pragma once

// The table of wrong ways to make a training step. The oracle recomputes the step in each way, and a dump is compared with that.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lab/against/dump.h"
#include "lab/against/oracle.h"
#include "lab/against/update.h"

namespace lockstep::lab::against {

/// Where a gradient is clipped before all of its parts are added.
enum class Early : std::uint8_t { no, each_micro_batch, sum_so_far, before_last, each_rank };

/// A step to recompute.
struct Case {
  Question question;
  Facts facts;
  UpdateWays update = {};
  std::shared_ptr<const std::vector<Values>> previous_weights = {};  ///< of two steps before, where they can be known
  /// Gradients of the step before, by parameter, where they can be known. The step's gradients are these times `previous_share`
  /// plus its own times `own_share`.
  std::shared_ptr<const std::map<std::string, Values>> previous_gradients = {};
  double own_share = 1, previous_share = 0;
  Early early = Early::no;
  double early_scale = 1;                     ///< factor of the parts when they are clipped
  double gradient_ratio = 1, rate_ratio = 1;  ///< of the first wrong gradient and learning rate in the dump, to the right ones
};

/// What a wrong way explains:
/// - forward: activations and loss. Gradients of ranks that differ are left open.
/// - first: the first wrong tensor. Tensors behind it mix what differs between ranks.
/// - update: nothing before the gradient's norm.
enum class Scope : std::uint8_t { step, forward, first, update };

struct Way {
  std::string word, sentence;  ///< {} in the sentence stands for the value
  /// The values to try; none where the way does not apply to the case.
  std::function<std::vector<double>(const Case&)> values;
  std::function<void(Case&, double value)> change;
  std::function<std::string(double value)> shown = {};  ///< the value as text; empty: as a number
  Dimension rank = no_dimension;                        ///< each rank of this dimension may have a value by its own number
  Scope scope = Scope::step;
};

const std::vector<Way>& all_ways();
/// The ways of the model's passes, of one rank or of several.
std::vector<Way> model_ways();
/// The ways of the update.
std::vector<Way> update_ways();

/// Gives each target's loss the same share, so that their mean is the loss: the right shares.
void share_alike(Question& question);

}  // namespace lockstep::lab::against
