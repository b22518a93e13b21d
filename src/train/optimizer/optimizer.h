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

/// What all methods may be told; each reads what it knows.
struct OptimizerSettings {
  std::string name = "AdamW";  ///< a row of the table
  float beta1 = 0.9F, beta2 = 0.95F, eps = 1e-8F;
  float momentum = 0;
  float weight_decay = 0.1F;
  std::optional<DType> moments = {};      ///< of slots: f32 or bf16; none: that of the weights that are updated
  Rounding rounding = Rounding::nearest;  ///< of what is stored as bf16: weights and slots, not copies of f32 weights

  friend bool operator==(const OptimizerSettings&, const OptimizerSettings&) = default;
};

/// What an update multiplies a gradient of this norm by; `limit` 0: no clipping.
double clip_factor(double norm, float limit);

/// One update of the weights.
struct UpdateNumbers {
  double learning_rate = 0;
  double clip_factor = 1;
  bool finite = true;  ///< false: everything stays as it is, the number of updates too
};

/// What a rule needs of each tensor beside the elements that it updates.
enum class WholeTensorNeed : std::uint8_t {
  none,
  norms,    ///< of the tensor and of its gradient
  matrices  ///< of hidden matrices, by their owners
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
  /// Names of the values it keeps for each weight, in PyTorch's words; they start as zero.
  virtual const std::vector<std::string>& slots() const = 0;
  /// Its settings as a checkpoint records them.
  virtual Json describe() const = 0;
  virtual WholeTensorNeed whole_tensors() const { return WholeTensorNeed::none; }
  /// Tells a rule that needs whole tensors how ranks come by them, once, before any update. `group`: the ranks that hold the
  /// parameters together; `units`: how many units the model has. The references outlive this.
  virtual void connect(const WholeTensorMemory& /*memory*/, comm::Communicator& /*group*/, std::size_t /*units*/) {}

  /// Tells where the elements of a state's units lie in their parameters. With the seed this addresses the random numbers of
  /// stochastic rounding. Before any update. Does nothing where rounding is to the nearest and a rule takes all tensors alike.
  void address(const std::vector<layout::Unit>& units, std::uint64_t seed);
  /// Updates every range of `state`, which counts that; `scalars` bring the numbers to where the update reads them.
  void update(ops::Ops& ops, parallel::TrainingState& state, const ops::WrittenScalars& scalars, const UpdateNumbers& numbers);

 protected:
  explicit Optimizer(const OptimizerSettings& settings) : settings_(settings) {}
  const OptimizerSettings& settings() const { return settings_; }

  /// What the rule works on.
  struct Part {
    const parallel::StateRange& range;
    layout::Range elements;  ///< of the range
    float weight_decay;
    const ops::RandomRounding* random;  ///< null: to the nearest
    std::size_t parameter = 0;          ///< of the unit, where the rule needs whole tensors
    Tensor of(const Tensor& flat) const { return flat ? flat.flat(elements.first, elements.count) : Tensor{}; }
  };
  /// An update that begins.
  struct Begun {
    ops::Ops& ops;
    parallel::TrainingState& state;
    const ops::StepScalars& scalars;  ///< where the device reads them
    const UpdateNumbers& numbers;
    std::int64_t number;  ///< of the update, from 1
  };
  /// body(part) for the parts of a range that lie in one parameter each; what lies between parameters is zero and stays so.
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

  /// What comes before ranges are updated, one after the other; not where the step is not finite. Collective.
  virtual void prepare(const Begun& /*begun*/) {}
  /// The rule's own numbers of update `number`, counted from 1.
  virtual void set_own(const ops::WrittenScalars& scalars, std::int64_t number) const = 0;
  virtual void update_part(ops::Update& update, const Part& part, const ops::StepScalars& scalars) const = 0;

  OptimizerSettings settings_;
  std::vector<std::vector<Piece>> pieces_;  ///< by unit, in the order of elements
};

/// Throws BrokenRule for a name that optimizer_names() does not have.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings);
std::vector<std::string> optimizer_names();

}  // namespace lockstep::train
