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

/// Columns of what a module puts out.
struct ActivationMeaning {
  Spot spot;
  std::int64_t first = 0, columns = 0, of = 0;
  std::vector<std::int64_t> shape;
};

/// Rows of one of our parameters.
struct ParameterMeaning {
  std::size_t index = 0;
  arch::huggingface::Part part;
  bool decays = true;
  bool replicated = false;  ///< every tensor rank holds all of it
  std::int64_t order = 0;   ///< of the forward pass
  std::vector<std::int64_t> shape;

  /// As published, of the parameter's values.
  Values published(const Values& parameter) const;
  /// Its rows of the parameter become the published values.
  void put(const Values& published, Values& parameter) const;

 private:
  /// Where element (i, j) of its rows is published.
  std::size_t place(std::size_t i, std::size_t j) const;
};

class Names {
 public:
  /// `parameters` in the order of unit_table().
  Names(const arch::ModelConfig& config, const std::vector<arch::huggingface::Parameter>& parameters, const Batch& batch);

  /// What a module of that name puts out; nothing for a name that the tables lack.
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
