#pragma once

// Integers that cannot be mistaken for one another.

#include <compare>

namespace lockstep {

template <class Tag, class Rep>
struct Strong {
  Rep value{};
  friend constexpr auto operator<=>(const Strong&, const Strong&) = default;
  constexpr Strong& operator++() {
    ++value;
    return *this;
  }
};

using UnitIndex = Strong<struct UnitIndexTag, int>;
using Microbatch = Strong<struct MicrobatchTag, int>;

}  // namespace lockstep
