#pragma once

// What the names in a dump mean: tables from published names of modules and parameters to what the oracle computes.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/huggingface/tensors.h"
#include "lab/against/oracle.h"

namespace lockstep::lab::against {

/// Columns of a module's output.
struct ActivationMeaning {
  Spot spot;
  std::int64_t first = 0, columns = 0, of = 0;
  std::vector<std::int64_t> shape;
};

/// The rows of one of the oracle's parameters that a published tensor has.
struct ParameterMeaning {
  std::size_t index = 0;
  arch::huggingface::Part part;
  bool decays = true;
  bool replicated = false;  ///< every tensor rank holds all of it
  std::int64_t order = 0;   ///< the tensor's place in the order of the forward pass
  std::vector<std::int64_t> shape;

  /// The tensor in its published form, from the values of the parameter.
  Values published(const Values& parameter) const;
  /// Writes the published values into their rows of the parameter.
  void put(const Values& published, Values& parameter) const;

 private:
  /// The index of element (i, j) of its rows in the published form.
  std::size_t place(std::size_t i, std::size_t j) const;
};

class Names {
 public:
  /// `parameters` in the order of unit_table().
  Names(const arch::ModelConfig& config, const std::vector<arch::huggingface::Parameter>& parameters, const Batch& batch);

  /// The columns that a module of this name puts out; none for a name that the tables lack.
  std::optional<ActivationMeaning> activation(std::string_view module) const;
  /// Null for a name that the model does not have.
  const ParameterMeaning* parameter(std::string_view name) const;
  const std::map<std::string, ParameterMeaning, std::less<>>& parameters() const { return parameters_; }

 private:
  ActivationMeaning columns_of(Place place, int part) const;

  const arch::ModelConfig& config_;
  std::int64_t rows_, columns_;
  std::map<std::string, ParameterMeaning, std::less<>> parameters_;
};

Values published(const ActivationMeaning& meaning, const Walked& walked);

}  // namespace lockstep::lab::against
