#pragma once

// How a reduced gradient changes weights: a rule over flat ranges, and what it keeps for each weight (its slots). A method is a
// source here (methods.h), its op in ops/update, and a row of the table in optimizer.cpp.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "ops/ops.h"
#include "parallel/training_state.h"
#include "parallel/whole/matrix_exchange.h"
#include "parallel/whole/tensor_norms.h"
#include "train/optimizer/newton_schulz.h"

namespace lockstep::train {

enum class Rounding : std::uint8_t { nearest, stochastic };

/// Settings of all methods; each method reads its own.
struct OptimizerSettings {
  std::string name = "AdamW";  ///< a row of the table
  float beta1 = 0.9F, beta2 = 0.95F, eps = 1e-8F;
  float momentum = 0;
  float weight_decay = 0.1F;
  std::optional<DType> moments = {};      ///< of slots: f32 or bf16; none: the type of the weights that are updated
  Rounding rounding = Rounding::nearest;  ///< of values stored as bf16: weights and slots, but not copies of f32 weights

  friend bool operator==(const OptimizerSettings&, const OptimizerSettings&) = default;
};

/// The factor of the update for a gradient of this norm; `limit` 0: no clipping, so 1.
double clip_factor(double norm, float limit);

/// One update of the weights.
struct UpdateNumbers {
  double learning_rate = 0;
  double clip_factor = 1;
  bool finite = true;  ///< false: everything stays as it is, the number of updates too
};

/// What a rule needs of each whole tensor, beside the elements that it updates.
enum class WholeTensorNeed : std::uint8_t {
  none,
  norms,    ///< of the tensor and of its gradient
  matrices  ///< hidden matrices whole, on the ranks that own them
};

/// Memory for a rule that needs whole tensors. Members that the rule has no use for stay undeclared.
struct WholeTensorMemory {
  parallel::TensorNormMemory norms;
  parallel::MatrixMemory matrices;
  NewtonSchulzMemory products;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Names of the slots, in PyTorch's words; slots start as zero.
  virtual const std::vector<std::string>& slots() const = 0;
  /// Its settings as a checkpoint records them.
  virtual Json describe() const = 0;
  virtual WholeTensorNeed whole_tensors() const { return WholeTensorNeed::none; }
  /// Tells a rule that needs whole tensors how ranks come by them, once, before any update. `group`: the ranks that hold the
  /// parameters together; `units`: how many units the model has. The references outlive this.
  virtual void connect(const WholeTensorMemory& /*memory*/, comm::Communicator& /*group*/, std::size_t /*units*/) {}

  /// Tells where the elements of a state's units lie in their parameters. With the seed this addresses the random numbers of
  /// stochastic rounding. Before any update. Does nothing where rounding is to the nearest and the rule treats all tensors alike.
  void address(const std::vector<layout::Unit>& units, std::uint64_t seed);
  /// Updates every range of `state`, which counts the update. `scalars` carry the numbers to the device.
  void update(ops::Ops& ops, parallel::TrainingState& state, const ops::WrittenScalars& scalars, const UpdateNumbers& numbers);

 protected:
  explicit Optimizer(const OptimizerSettings& settings) : settings_(settings) {}
  const OptimizerSettings& settings() const { return settings_; }

  /// The part of a range that lies in one parameter.
  struct Part {
    const parallel::StateRange& range;
    layout::Range elements;  ///< of the range
    float weight_decay;
    const ops::RandomRounding* random;  ///< null: to the nearest
    std::size_t parameter = 0;          ///< its number in the unit, where the rule needs whole tensors
    Tensor of(const Tensor& flat) const { return flat ? flat.flat(elements.first, elements.count) : Tensor{}; }
  };
  /// An update at its beginning, for rules that need whole tensors.
  struct Begun {
    ops::Ops& ops;
    parallel::TrainingState& state;
    const ops::StepScalars& scalars;  ///< where the device reads them
    const UpdateNumbers& numbers;
    std::int64_t number;  ///< of the update, from 1
  };
  /// Calls body(part) for the parts of a range that lie in one parameter each. Elements between parameters are zero and stay so.
  template <class Body>
  void for_pieces(const parallel::StateRange& range, std::int64_t number, const Body& body) const {
    for (const Piece& piece : pieces_[static_cast<std::size_t>(range.unit.value)]) {
      const layout::Range held = layout::overlap(piece.elements, range.range);
      if (held.count == 0) continue;
      ops::RandomRounding random = piece.random;
      random.update = static_cast<std::uint64_t>(number);
      random.skipped = held.first - piece.elements.first;
      const bool rounds = settings_.rounding == Rounding::stochastic;
      body(Part{range,
                {held.first - range.range.first, held.count},
                piece.decays ? settings_.weight_decay : 0,
                rounds ? &random : nullptr,
                piece.parameter});
    }
  }

 private:
  /// A rectangle of one parameter of a unit, or all of the parameter.
  struct Piece {
    layout::Range elements;
    bool decays;
    std::size_t parameter;
    ops::RandomRounding random;
  };
  bool by_pieces() const { return settings_.rounding == Rounding::stochastic || whole_tensors() != WholeTensorNeed::none; }

  /// Work before the ranges are updated one after the other; left out where the step is not finite. Collective.
  virtual void prepare(const Begun& /*begun*/) {}
  /// Sets the rule's own scalars for update `number`, counted from 1.
  virtual void set_own(const ops::WrittenScalars& scalars, std::int64_t number) const = 0;
  virtual void update_part(ops::Update& update, const Part& part, const ops::StepScalars& scalars) const = 0;

  OptimizerSettings settings_;
  std::vector<std::vector<Piece>> pieces_;  ///< by unit, in the order of elements
};

/// Throws BrokenRule for a name that optimizer_names() does not have.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings);
std::vector<std::string> optimizer_names();

}  // namespace lockstep::train
