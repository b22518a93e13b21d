#pragma once

// What the public functions of the families demand of their tensors. A broken demand is a bug of the caller: BrokenRule
// with the tensor's name. Nothing is formatted unless a demand is broken.

#include <initializer_list>
#include <string_view>

#include "tensor/tensor.h"

namespace lockstep::ops {

/// The storage type of a call, which is that of `tensor` (named `name` in the message): f32 or bf16. The call's other weights
/// and activations have to be of this type too.
DType storage_of(const Tensor& tensor, std::string_view name);
/// `tensor` is a matrix of rows x columns of `type`; rows may be strided, but not lie in tiles.
void check_matrix(const Tensor& tensor, std::int64_t rows, std::int64_t columns, std::string_view name, DType type = DType::f32);
/// What check_matrix() demands, of weights, whose rows may lie in tiles.
void check_weights(const Tensor& tensor, std::int64_t rows, std::int64_t columns, std::string_view name, DType type);
/// What check_matrix() demands, when `tensor` is not empty.
void check_optional_matrix(const Tensor& tensor, std::int64_t rows, std::int64_t columns, std::string_view name,
                           DType type = DType::f32);
/// `tensor` is dense and has `count` elements of `type`.
void check_dense(const Tensor& tensor, std::int64_t count, std::string_view name, DType type = DType::f32);
/// What check_dense() demands, when `tensor` is not empty.
void check_optional_dense(const Tensor& tensor, std::int64_t count, std::string_view name, DType type = DType::f32);
/// All tensors that are not empty are on one device.
void check_device(std::initializer_list<const Tensor*> tensors);
/// Throws BrokenRule(`name`: `rule`) when `condition` does not hold.
void demand(bool condition, std::string_view name, std::string_view rule);

class Positions;
/// The rows of `tensor` are whole samples whose rows have these positions.
void check_samples(const Tensor& tensor, const Positions& positions, std::string_view name);
/// `starts` is empty, or has an entry for every position before `end` of each of `samples` samples.
void check_starts(const Tensor& starts, std::int64_t samples, std::int64_t end);

struct DropoutSite;
/// p is in [0, 1), and neither the first sample nor the first index is negative.
void check_site(const DropoutSite& site);

}  // namespace lockstep::ops
