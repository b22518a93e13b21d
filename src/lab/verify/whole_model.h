#pragma once

// Weights, gradients and the optimizer's state of a whole model, parameter by parameter. A run's ranks have them together;
// records and comparisons use this form.

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

/// The parameters of a model, numbered in the order in which a step has their gradients: the head's first. Parameters that are
/// not trained come last.
struct WholeModel {
  struct Parameter {
    std::string name, unit;                 ///< "transformer.h.3.ln_1.weight", "h.3"
    std::int64_t elements = 0, offset = 0;  ///< offset: the number of elements of those before
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
  /// Elements [first, first + count) of a parameter in row-major order of its global shape; host memory that this owns.
  Tensor of(int parameter, std::int64_t first, std::int64_t count) const;
  DType type() const { return type_; }
  /// All elements of a parameter.
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
  bool counts = true;      ///< whether this rank answers for them, of several that hold them
};

/// The unit of a range.
inline const layout::Unit& unit_of(const parallel::TrainingState& state, const parallel::StateRange& range) {
  return state.units()[static_cast<std::size_t>(range.unit.value)];
}

/// Calls use(run) for each parameter's part of `values`, which are elements `held` of the unit. `own`: the elements that the rank
/// answers for.
void for_each_run(const WholeModel& model, const layout::Unit& unit, const layout::Range& held, const Tensor& values,
                  const layout::Range& own, const std::function<void(const HeldRun& run)>& use);

}  // namespace lockstep::lab
