#pragma once

// Weights, gradients and the optimizer's state of a whole model, parameter by parameter: what a run's ranks have together, to be
// written down and compared.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "arch/config.h"
#include "device/memory.h"
#include "parallel/training_state.h"
#include "tensor/tensor.h"

namespace lockstep::lab {

/// The parameters of a model, by number, in the order in which a step has their gradients: those of the head first. What is not
/// trained comes last.
struct WholeModel {
  struct Parameter {
    std::string name, unit;                 ///< "transformer.h.3.ln_1.weight", "h.3"
    std::int64_t elements = 0, offset = 0;  ///< offset: behind the elements of those before
    bool trained = true;
  };
  explicit WholeModel(const arch::ModelConfig& config);

  std::vector<Parameter> parameters;
  std::map<std::string, int, std::less<>> numbers;  ///< by name
  std::int64_t elements = 0;
};

/// One kind of values of all parameters, whole.
class WholeValues {
 public:
  WholeValues() = default;
  /// Zeros. The model outlives this.
  WholeValues(const WholeModel& model, DType type);
  /// Elements of a parameter in row-major order of its global shape; host memory that this owns.
  Tensor of(int parameter, std::int64_t first, std::int64_t count) const;
  DType type() const { return type_; }
  /// All of them.
  Tensor of(int parameter) const { return of(parameter, 0, model_->parameters[static_cast<std::size_t>(parameter)].elements); }

 private:
  const WholeModel* model_ = nullptr;
  DType type_ = DType::f32;
  Memory values_;
};

/// Values that lie one after another in a parameter and on a rank.
struct HeldRun {
  int parameter = 0;
  std::int64_t first = 0;  ///< element of the whole parameter
  Tensor values;           ///< the rank's
  bool counts = true;      ///< of several ranks that hold them, this one answers for them
};

/// The unit that a range is of.
inline const layout::Unit& unit_of(const parallel::TrainingState& state, const parallel::StateRange& range) {
  return state.units()[static_cast<std::size_t>(range.unit.value)];
}

/// Calls use(run) for all that `values`, elements `held` of the unit, has of parameters; `own` are those that the rank answers
/// for.
void for_each_run(const WholeModel& model, const layout::Unit& unit, const layout::Range& held, const Tensor& values,
                  const layout::Range& own, const std::function<void(const HeldRun& run)>& use);

}  // namespace lockstep::lab
