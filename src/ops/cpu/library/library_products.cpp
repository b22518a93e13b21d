#include "ops/cpu/library/library_products.h"

#include <fmt/format.h>

#include "base/error.h"

namespace lockstep::ops::cpu {

LibraryProducts::LibraryProducts(Product& ours, MemorySource& memory)
    : ours_(ours), library_(open_library(ours.team().size())), apart_(ours.team(), memory) {}

LibraryMatmul& LibraryProducts::matmul(const LibraryShape& shape) {
  std::unique_ptr<LibraryMatmul>& prepared = prepared_[shape];
  if (!prepared) prepared = library_->prepare(shape);
  if (!prepared) {
    throw UserError(
        fmt::format("numerics.products=library: {} has no {} products on this processor", library_->name(), name_of(shape.type)),
        "numerics.products=ours, or train.dtype=fp32");
  }
  return *prepared;
}

void LibraryProducts::run(const ProductTask& task) {
  const bool finished = task.finish.apply != nullptr;
  if (task.a_type != task.b_type || (finished && !FinishApart::fits(task))) return ours_.run(task);
  if (task.sums != nullptr) sum_rows(task, ours_.team());
  if (!finished) return multiply(task);
  apart_.run(task, [this](const ProductTask& part) { multiply(part); });
}

void LibraryProducts::multiply(const ProductTask& task) {
  const LibraryShape shape{.m = task.m,
                           .n = task.n,
                           .k = task.k,
                           .a_stride = task.a_stride,
                           .b_stride = task.b_stride,
                           .c_stride = task.c_stride,
                           .a_transposed = task.a_transposed,
                           .b_transposed = task.b_transposed,
                           .accumulate = task.accumulate,
                           .type = task.a_type};
  matmul(shape).run(task.a, task.b, task.c);
}

}  // namespace lockstep::ops::cpu
