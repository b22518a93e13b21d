#include "comm/operation.h"

#include <fmt/format.h>

#include <array>

#include "base/units.h"

namespace lockstep::comm {

std::string_view name_of(Reduction reduction) {
  constexpr std::array<std::string_view, 4> names{"sum", "mean", "min", "max"};
  return names.at(static_cast<std::size_t>(reduction));
}

std::string_view name_of(Collective kind) {
  constexpr std::array<std::string_view, kCollectives> names{"all_reduce",     "reduce",  "broadcast", "all_gather",
                                                             "reduce_scatter", "gather",  "scatter",   "all_to_all",
                                                             "send",           "receive", "barrier"};
  return names.at(static_cast<std::size_t>(kind));
}

std::string describe(Collective kind, Reduction reduction, DType dtype, int root, std::int64_t count) {
  const std::string what = fmt::format("{} {}", format_count(count), name_of(dtype));
  switch (kind) {
    case Collective::barrier:
      return "barrier";
    case Collective::all_reduce:
    case Collective::reduce_scatter:
      return fmt::format("{} ({}, {})", name_of(kind), name_of(reduction), what);
    case Collective::reduce:
      return fmt::format("reduce ({}, {}, root {})", name_of(reduction), what, root);
    case Collective::broadcast:
    case Collective::gather:
    case Collective::scatter:
      return fmt::format("{} ({}, root {})", name_of(kind), what, root);
    case Collective::send:
      return fmt::format("send ({}, to {})", what, root);
    case Collective::receive:
      return fmt::format("receive ({}, from {})", what, root);
    default:
      return fmt::format("{} ({})", name_of(kind), what);
  }
}

}  // namespace lockstep::comm
