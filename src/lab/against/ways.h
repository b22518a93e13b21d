#pragma once

// The table of wrong ways to make a training step. Each is recomputed by the oracle and compared with what a dump has.

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
  std::shared_ptr<const std::vector<Values>> previous_weights = {};  ///< before the step before, where they can be known
  /// By parameter, where they can be known; the step's gradients are these times `previous_share`, and its own.
  std::shared_ptr<const std::map<std::string, Values>> previous_gradients = {};
  double own_share = 1, previous_share = 0;
  Early early = Early::no;
  double early_scale = 1;                     ///< of the parts when they are clipped
  double gradient_ratio = 1, rate_ratio = 1;  ///< of the first wrong ones in the dump to the right ones
};

/// What a wrong way explains:
/// - forward: activations and loss; what ranks that differ make of gradients is left open.
/// - first: the first wrong tensor; tensors behind it mix what differs between ranks.
/// - update: nothing before the gradient's norm.
enum class Scope : std::uint8_t { step, forward, first, update };

struct Way {
  std::string word, sentence;  ///< {} in the sentence is the value
  /// The values to try; none: the case has nothing of this kind.
  std::function<std::vector<double>(const Case&)> values;
  std::function<void(Case&, double value)> change;
  std::function<std::string(double value)> shown = {};  ///< none: as a number
  Dimension rank = no_dimension;                        ///< each rank of it may do so by its own number
  Scope scope = Scope::step;
};

const std::vector<Way>& all_ways();
/// Those of the model's pass, of one rank or of several.
std::vector<Way> model_ways();
/// Those of the update.
std::vector<Way> update_ways();

/// Every taught token's loss counts alike, and their mean is taken: the right shares.
void share_alike(Question& question);

}  // namespace lockstep::lab::against
