#pragma once

// One operation of a group as a record: what a transport carries out, what ranks compare, and what a report names.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "comm/reduction.h"
#include "tensor/tensor.h"

namespace lockstep::comm {

enum class Collective : std::uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  all_to_all,
  send,
  receive,
  barrier,
};

inline constexpr std::size_t kCollectives = static_cast<std::size_t>(Collective::barrier) + 1;
std::string_view name_of(Collective kind);
/// Seconds by kind.
using CollectiveSeconds = std::array<double, kCollectives>;

/// What one rank asks for. Tensors are dense; an empty one is not used by this rank.
struct Operation {
  Collective kind = Collective::barrier;
  Reduction reduction = Reduction::sum;
  DType dtype = DType::f32;
  int root = 0;                                   ///< or the other rank of a send or receive
  std::int64_t count = 0;                         ///< elements that every rank must agree on (0 where `counts` says it)
  Tensor in = {};                                 ///< what this rank gives; may be the same as `out`
  Tensor out = {};                                ///< what this rank gets
  std::span<const std::int64_t> counts = {};      ///< by rank: all_gather, reduce_scatter; all_to_all: pieces of `in`
  std::span<const std::int64_t> out_counts = {};  ///< all_to_all: pieces of `out`
};

/// "all_reduce (sum, 1,024 F32)".
std::string describe(Collective kind, Reduction reduction, DType dtype, int root, std::int64_t count);

}  // namespace lockstep::comm
