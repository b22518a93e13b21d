#include "lab/against/tape.h"

#include <algorithm>
#include <utility>

namespace lockstep::lab::against {
namespace {

/// Adds a [m, k] times b [k, n] to `sums` [m, n]; turned: a is [k, m].
template <class Sum>
void add_product_in(Values& sums, const Values& a, bool turned, std::size_t k, const Values& b) {
  const std::size_t n = b.size() / k, m = a.size() / k;
  std::vector<Sum> line(n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t l = 0; l < n; ++l) line[l] = static_cast<Sum>(sums[i * n + l]);
    for (std::size_t j = 0; j < k; ++j) {
      const auto factor = static_cast<Sum>(a[turned ? j * m + i : i * k + j]);
      for (std::size_t l = 0; l < n && factor != 0; ++l) line[l] += factor * static_cast<Sum>(b[j * n + l]);
    }
    for (std::size_t l = 0; l < n; ++l) sums[i * n + l] = static_cast<double>(line[l]);
  }
}

Values transposed(const Values& matrix, std::size_t columns) {
  const std::size_t rows = matrix.size() / columns;
  Values turned(matrix.size());
  for (std::size_t i = 0; i < matrix.size(); ++i) turned[i % columns * rows + i / columns] = matrix[i];
  return turned;
}

}  // namespace

void Tape::keep(Node& node) {
  round(node.value);
  node.slope.resize(node.value.size());
}

Node& Tape::make(Values values) {
  Node& node = nodes_.emplace_back(Node{std::move(values), {}});
  node.slope.resize(node.value.size());
  return node;
}

void Tape::then(Node& node, std::function<void()> step) { steps_.emplace_back(&node, std::move(step)); }

void Tape::back() {
  const Node* done = nullptr;
  for (; !steps_.empty(); steps_.pop_back()) {
    auto& [node, step] = steps_.back();
    if (std::exchange(done, node) != node) round(node->slope);
    step();
  }
  nodes_.clear();
}

Node& Tape::product(Node& x, Node& w, Node* bias, const Product& how, std::function<void(Values&)> change) {
  const std::size_t in = x.value.size() / rows_, out = w.value.size() / in;
  Node& y = make(Values(rows_ * out));
  add_product(y.value, x.value, false, in, transposed(w.value, in));
  for (std::size_t i = 0; i < y.value.size(); ++i)
    y.value[i] = y.value[i] * how.value_times + (bias == nullptr ? 0 : bias->value[i % out] * how.bias_times);
  round(y.value);
  then(y, [=, this, &x, &w, &y, change = std::move(change)] {
    Values slope(w.slope.size()), x_slope(x.slope.size());
    Values& sums = how.weight_slope_times == 1 ? w.slope : slope;
    Values own = y.slope;
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = keeps(i / out) ? own[i] : 0;
    add_product(sums, own, true, rows_, x.value);
    for (std::size_t i = 0; i < slope.size() && &sums == &slope; ++i) w.slope[i] += slope[i] * how.weight_slope_times;
    for (std::size_t i = 0; i < y.slope.size() && bias != nullptr && how.bias_slope; ++i) add(bias->slope[i % out], own[i]);
    if (change) change(y.slope);
    add_product(x_slope, y.slope, false, out, w.value);
    for (std::size_t i = 0; i < x_slope.size(); ++i) x.slope[i] += x_slope[i] * how.slope_times;
  });
  return y;
}

void Tape::add_product(Values& sums, const Values& a, bool turned, std::size_t k, const Values& b) const {
  rounding_ == nullptr ? add_product_in<double>(sums, a, turned, k, b) : add_product_in<float>(sums, a, turned, k, b);
}

double Tape::rounded(double value) {
  if (rounding_ == nullptr || value == 0) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const double step = std::max(std::ldexp(1.0, exponent - 1 - rounding_->fraction_bits), rounding_->least);
  state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
  return std::floor(value / step + static_cast<double>(state_ >> 11U) * 0x1p-53) * step;
}

void Tape::round(Values& values) {
  for (std::size_t i = 0; i < values.size() && rounding_ != nullptr; ++i) values[i] = rounded(values[i]);
}

double Tape::dot(const double* a, const double* b, std::int64_t count) const {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) add(sum, a[i] * b[i]);
  return sum;
}

std::pair<double, double> Tape::turn(std::int64_t position, float frequency) {
  double angle = static_cast<double>(position) * static_cast<double>(frequency);
  if (rounding_ != nullptr) angle = static_cast<double>(static_cast<float>(angle));
  return {rounded(std::cos(angle)), rounded(std::sin(angle))};
}

}  // namespace lockstep::lab::against
