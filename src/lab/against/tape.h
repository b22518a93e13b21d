#pragma once

// The computations of the oracle's walk, recorded so that it can go back: values and their slopes (gradients). They are in
// double, or as a program with shorter numbers would have them.

#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "lab/against/oracle.h"

namespace lockstep::lab::against {

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Node {
  Values value, slope;
};

class Tape {
 public:
  /// For matrices of `rows` rows. `rounding` outlives this; null: double throughout.
  Tape(std::int64_t rows, const Rounding* rounding)
      : rows_(at(rows)), rounding_(rounding), state_(rounding == nullptr ? 0 : rounding->seed) {}

  /// Rounds a parameter's values, and sets its slopes to zero.
  void keep(Node& node);
  /// Makes a node of these values that lives until back().
  Node& make(Values values);
  /// Records a step that adds to other slopes once the node's are known. Slopes are rounded before the first step of their node.
  void then(Node& node, std::function<void()> step);
  /// Runs all steps backwards, then forgets them.
  void back();

  struct Product {
    double value_times = 1, bias_times = 1, slope_times = 1, weight_slope_times = 1;
    bool bias_slope = true;
  };
  /// x [rows, in] times the transpose of w [out, in], plus a bias that may be null. In back(), `change` gets the slopes after
  /// those of w are computed, and before those of x.
  Node& product(Node& x, Node& w, Node* bias, const Product& how, std::function<void(Values&)> change = {});

  /// Rows whose slopes are added to parameters' gradients; empty: all.
  void keep_rows(std::vector<bool> rows) { kept_ = std::move(rows); }
  bool keeps(std::size_t row) const { return kept_.empty() || kept_[row]; }

  double rounded(double value);
  void round(Values& values);
  void add(double& sum, double value) const { sum = rounding_ == nullptr ? sum + value : static_cast<float>(sum + value); }
  double dot(const double* a, const double* b, std::int64_t count) const;
  /// Cosine and sine of a position's angle; the angle is a float where numbers are short.
  std::pair<double, double> turn(std::int64_t position, float frequency);

 private:
  void add_product(Values& sums, const Values& a, bool turned, std::size_t k, const Values& b) const;

  std::size_t rows_;
  const Rounding* rounding_;
  std::uint64_t state_;
  std::vector<bool> kept_;
  std::deque<Node> nodes_;
  std::vector<std::pair<Node*, std::function<void()>>> steps_;
};

}  // namespace lockstep::lab::against
