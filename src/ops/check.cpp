#include "ops/check.h"

#include <fmt/format.h>

#include "ops/dropout.h"

namespace lockstep::ops {

void demand(bool condition, std::string_view name, std::string_view rule) {
  if (!condition) throw BrokenRule(fmt::format("broken rule: {}: {}", name, rule));
}

namespace {

void check_type(const Tensor& tensor, std::string_view name, DType type) {
  demand(tensor || tensor.elements() == 0, name, "the tensor is there");
  if (tensor.dtype != type) {
    throw BrokenRule(fmt::format("broken rule: {}: the type is {}, not {}", name, name_of(type), name_of(tensor.dtype)));
  }
}

}  // namespace

DType storage_of(const Tensor& tensor, std::string_view name) {
  demand(tensor.dtype == DType::f32 || tensor.dtype == DType::bf16, name, "the type is F32 or BF16");
  return tensor.dtype;
}

void check_matrix(const Tensor& tensor, std::int64_t rows, std::int64_t columns, std::string_view name, DType type) {
  demand(tensor.order == Order::rows, name, "it was not prepacked");
  check_weights(tensor, rows, columns, name, type);
}

void check_weights(const Tensor& tensor, std::int64_t rows, std::int64_t columns, std::string_view name, DType type) {
  check_type(tensor, name, type);
  demand(tensor.stride() >= tensor.columns(), name, "rows do not overlap");
  if (tensor.rows() != rows || tensor.columns() != columns) {
    throw BrokenRule(fmt::format("broken rule: {}: the shape is [{}, {}], not {}", name, rows, columns, tensor.shape.text()));
  }
}

void check_optional_matrix(const Tensor& tensor, std::int64_t rows, std::int64_t columns, std::string_view name, DType type) {
  if (tensor) check_matrix(tensor, rows, columns, name, type);
}

void check_dense(const Tensor& tensor, std::int64_t count, std::string_view name, DType type) {
  check_type(tensor, name, type);
  demand(tensor.dense(), name, "the tensor is dense");
  if (tensor.elements() != count) {
    throw BrokenRule(fmt::format("broken rule: {}: there are {} elements, not {}", name, count, tensor.elements()));
  }
}

void check_optional_dense(const Tensor& tensor, std::int64_t count, std::string_view name, DType type) {
  if (tensor) check_dense(tensor, count, name, type);
}

void check_device(std::initializer_list<const Tensor*> tensors) {
  const Tensor* first = nullptr;
  for (const Tensor* tensor : tensors) {
    if (!*tensor) continue;
    if (first == nullptr) first = tensor;
    demand(tensor->device == first->device, "tensors of one call", "all are on one device");
  }
}

void check_samples(const Tensor& tensor, const Positions& positions, std::string_view name) {
  demand(positions.count() > 0 && tensor.rows() % positions.count() == 0, name, "the rows are whole samples");
}

void check_site(const DropoutSite& site) {
  demand(site.p >= 0 && site.p < 1, "dropout", "p is in [0, 1)");
  demand(site.first_sample >= 0 && site.first_index >= 0, "dropout", "sample and index are not negative");
}

void check_starts(const Tensor& starts, std::int64_t samples, std::int64_t end) {
  if (!starts) return;
  check_matrix(starts, samples, starts.columns(), "starts", DType::i32);
  demand(starts.columns() >= end, "starts", "every position has one");
}

}  // namespace lockstep::ops
