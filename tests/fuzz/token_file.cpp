// Token files and their loss masks. The first byte says how wide an id is and whether there is a mask. The next three are the
// size of the vocabulary. The tokens come next, and behind them the mask.

#include "data/token_file.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "fuzz/memory.h"
#include "fuzz/target.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  if (input.size() < 4) return;
  const auto number = [&](std::size_t at) { return std::to_integer<std::int64_t>(input[at]); };
  const bool wide = (number(0) & 1) != 0, masked = (number(0) & 2) != 0;
  const std::int64_t vocabulary = number(1) | number(2) << 8 | number(3) << 16;
  const data::TokenFormat format{.token_bytes = wide ? 4 : 2, .vocabulary = vocabulary};
  const auto rest = input.subspan(4);
  const auto width = static_cast<std::size_t>(format.token_bytes);
  const std::size_t bytes = masked ? rest.size() / (width + 1) * width : rest.size();
  data::TokenFile file("input", format, std::make_unique<Memory>(rest.first(bytes)));
  if (masked) file.set_mask("mask", std::make_unique<Memory>(rest.subspan(bytes)));
  file.check_ids();
  std::vector<std::int32_t> ids(static_cast<std::size_t>(file.tokens()));
  file.read(0, ids);
  ensure(std::ranges::all_of(ids, [&](std::int32_t id) { return id >= 0 && id < vocabulary; }), "a model knows every id");
  const std::int64_t left = file.apply_mask(0, ids);
  ensure(left == std::ranges::count_if(ids, [](std::int32_t id) { return id >= 0; }), "targets are counted");
}

}  // namespace lockstep::fuzz
