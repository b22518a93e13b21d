#include "train/optimizer/newton_schulz.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::train {
namespace {

constexpr int iterations = 5;
constexpr float a = 3.4445F, b = -4.7750F, c = 2.0315F;
constexpr double least_norm = 1e-7;  // as torch.optim.Muon has it

}  // namespace

void NewtonSchulzMemory::declare(Arena& workspace, std::int64_t elements, std::int64_t least) {
  workspace.declare(next, "Newton-Schulz, next matrix", Shape{elements}, DType::f32);
  workspace.declare(gram, "Newton-Schulz, gram matrix", Shape{least * least}, DType::f32);
  workspace.declare(squared, "Newton-Schulz, its square", Shape{least * least}, DType::f32);
  workspace.declare(squares, "squares of a matrix", Shape{1}, DType::f64);
}

void orthogonalise(ops::Ops& ops, const NewtonSchulzMemory& memory, const Tensor& matrix, float scale) {
  const std::int64_t rows = matrix.rows(), columns = matrix.columns(), least = std::min(rows, columns);
  const bool tall = rows > columns;
  const Tensor gram = memory.gram.flat(0, least * least).reshape({least, least});
  const Tensor squared = memory.squared.flat(0, least * least).reshape({least, least});
  Tensor now = matrix, next = memory.next.flat(0, matrix.elements()).reshape({rows, columns});
  ops.reduce().sum_of_squares(memory.squares.device, matrix);
  download(ops.stream(), memory.squares);
  const double norm = std::sqrt(elements<const double>(memory.squares.host)[0]);
  ops.elementwise().scale(now, static_cast<float>(1 / std::max(norm, least_norm)));
  for (int i = 0; i < iterations; ++i) {
    tall ? ops.linear().backward_weight(gram, {}, now, now, false) : ops.linear().forward(gram, now, now);
    ops.linear().forward(squared, gram, gram);
    ops.elementwise().scale(squared, c);
    ops.elementwise().scale(gram, b);
    ops.elementwise().add(squared, gram);
    tall ? ops.linear().forward(next, now, squared) : ops.linear().backward_input(next, squared, now);
    ops.elementwise().scale(now, a);
    ops.elementwise().add(next, now);
    std::swap(now, next);
  }
  if (now.data != matrix.data) ops.elementwise().cast(matrix, now);
  ops.elementwise().scale(matrix, scale);
}

}  // namespace lockstep::train
