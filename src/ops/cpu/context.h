#pragma once

// What every kernel family of the CPU is built from.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/checked.h"
#include "device/stream.h"
#include "device/team.h"
#include "ops/cpu/options.h"
#include "ops/ops.h"

namespace lockstep::ops::cpu {

struct Context {
  Team& team;
  Stream& stream;
  Isa isa;
  /// Memory for partial sums, `workspace_size` bytes, aligned to 64. Ops of one stream run one after the other and share it.
  std::span<std::byte> workspace;
  OpObserver* observer;  ///< of the families' ops; null: none

  static constexpr std::size_t workspace_size = std::size_t{1} << 20;

  /// Cuts [0, count) into ranges of `tile` and calls body(first, last) for each on the team's workers. Each worker keeps to its
  /// part of the ranges from op to op.
  template <class Body>
  void deal(std::int64_t count, std::int64_t tile, Body&& body) const {
    team.for_each_affine(div_up(count, tile), [&](std::int64_t i, int) { body(i * tile, std::min(count, (i + 1) * tile)); });
    stream.progress();
  }

  /// The workspace as elements of T.
  template <class T>
  std::span<T> scratch() const {
    return {reinterpret_cast<T*>(workspace.data()), workspace.size() / sizeof(T)};
  }
};

/// Rows of `columns` elements that make a tile of about 16384 elements. Smaller tiles are not worth handing to another core.
inline std::int64_t rows_per_tile(std::int64_t columns) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, columns));
}

inline constexpr std::size_t cache_line = 64;  ///< bytes

/// Whether gradients whose next readers are weight gradients, on all workers, are stored past the caches. A line that another
/// core has read is slow to write again (docs/performance.md). The gradients' rows begin with a cache line then.
inline bool stored_past_caches(const Team& team, const Tensor& rows) {
  const auto bytes = static_cast<std::size_t>(rows.stride()) * size_of(rows.dtype);
  return team.size() > 1 && reinterpret_cast<std::uintptr_t>(rows.data) % cache_line == 0 && bytes % cache_line == 0;
}

/// The elements of a dense tensor of S; null when it is empty.
template <class S>
S* data_of(const Tensor& tensor) {
  return reinterpret_cast<S*>(tensor.data);
}
/// Row i of the matrix of S that `tensor` is; null when it is empty.
template <class S = float>
S* row_of(const Tensor& tensor, std::int64_t i) {
  return tensor ? data_of<S>(tensor) + i * tensor.stride() : nullptr;
}
/// The elements of a dense f32 tensor; null when it is empty.
inline float* floats(const Tensor& tensor) { return data_of<float>(tensor); }
/// The elements of a dense i32 tensor.
inline const std::int32_t* ids(const Tensor& tensor) { return reinterpret_cast<const std::int32_t*>(tensor.data); }

/// LayerNorm or a kind of RMSNorm, as `form` says.
std::unique_ptr<Norm> make_norm(const Context& context, NormForm form);
/// The bits of make_norm(), in passes of one operation each over all rows. `between` holds what a pass leaves for the next: at
/// least 3 floats for each element of 64 rows. It outlives the result.
std::unique_ptr<Norm> make_plain_norm(const Context& context, NormForm form, std::span<float> between);
std::unique_ptr<SplitNorm> make_split_norm(const Context& context);
std::unique_ptr<Rotary> make_rotary(const Context& context);
std::unique_ptr<Activations> make_activation(const Context& context);
std::unique_ptr<Embedding> make_embedding(const Context& context);
std::unique_ptr<Dropout> make_dropout(const Context& context);
std::unique_ptr<Loss> make_loss(const Context& context);
std::unique_ptr<Elementwise> make_elementwise(const Context& context);
std::unique_ptr<Reduce> make_reduce(const Context& context);
/// With `between`, AdamW's update is made in passes of one operation each. A pass takes a third as many elements as `between`
/// has. `between` outlives the result.
std::unique_ptr<Update> make_update(const Context& context, std::span<float> between = {});

}  // namespace lockstep::ops::cpu
