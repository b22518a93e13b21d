#pragma once

// How a reduced gradient changes weights: a rule over flat ranges, and what it keeps for each weight (its slots). A method is two
// files here, its op in ops/update, and a row of the table in optimizer.cpp.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "ops/update.h"
#include "parallel/training_state.h"

namespace lockstep::train {

/// What all methods may be told; each reads what it knows.
struct OptimizerSettings {
  std::string name = "AdamW";  ///< a row of the table
  float beta1 = 0.9F, beta2 = 0.95F, eps = 1e-8F;
  float momentum = 0;
  float weight_decay = 0.1F;

  friend bool operator==(const OptimizerSettings&, const OptimizerSettings&) = default;
};

/// What an update multiplies a gradient of this norm by; `limit` 0: no clipping.
double clip_factor(double norm, float limit);

/// One update of the weights.
struct UpdateNumbers {
  double learning_rate = 0;
  std::int64_t updates = 1;  ///< this one included
  double clip_factor = 1;
  bool finite = true;  ///< false: everything stays as it is
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Names of the values it keeps for each weight, in PyTorch's words; they start as zero.
  virtual const std::vector<std::string>& slots() const = 0;
  /// Its settings as a checkpoint records them.
  virtual Json describe() const = 0;

  /// Brings the numbers to where the update reads them.
  void set(Stream& stream, const ops::WrittenScalars& scalars, const UpdateNumbers& numbers) const;
  /// One update of every range of `state`; reads `scalars`.
  void update(ops::Update& update, parallel::TrainingState& state, const ops::StepScalars& scalars) const;

 protected:
  explicit Optimizer(const OptimizerSettings& settings) : settings_(settings) {}
  const OptimizerSettings& settings() const { return settings_; }

 private:
  /// The rule's own numbers of update `updates`.
  virtual void set_own(const ops::WrittenScalars& scalars, std::int64_t updates) const = 0;
  /// Elements [first, first + count) of the range, all of which decay by `weight_decay`.
  virtual void update_flat(ops::Update& update, const parallel::StateRange& range, std::int64_t first, std::int64_t count,
                           float weight_decay, const ops::StepScalars& scalars) const = 0;

  OptimizerSettings settings_;
};

/// Throws BrokenRule for a name that optimizer_names() does not have.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings);
std::vector<std::string> optimizer_names();

}  // namespace lockstep::train
