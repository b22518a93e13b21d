// Token files of other programs. The first byte says what the user tells of the ids and whether an index lies beside them. The
// next three are the size of the vocabulary. Two more are the length of the index, which stands before the tokens.

#include "data/formats/token_layout.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "fuzz/memory.h"
#include "fuzz/target.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  constexpr std::size_t header = 6;
  if (input.size() < header) return;
  const auto number = [&](std::size_t at) { return std::to_integer<std::size_t>(input[at]); };
  const auto names = data::id_choices();
  data::TokenRequest request{.any_id = (number(0) & 16) != 0, .ids = std::string(names[(number(0) & 7) % names.size()])};
  const auto vocabulary = static_cast<std::int64_t>(number(1) | number(2) << 8 | number(3) << 16);
  if (vocabulary > 0) request.vocabulary = vocabulary;
  const auto rest = input.subspan(header);
  const std::size_t bytes = std::min(rest.size(), number(4) | number(5) << 8);
  const Memory index(rest.first(bytes));
  const data::TokenFile file = data::open_token_file("input", request, std::make_unique<Memory>(rest.subspan(bytes)),
                                                     (number(0) & 8) != 0 ? &index : nullptr);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(file.tokens()));
  file.read(0, ids);
  ensure(std::ranges::all_of(ids, [&](std::int32_t id) { return id >= 0 && id < file.format().vocabulary; }),
         "a model knows every id");
  ensure(file.documents() >= 0, "documents are counted");
}

}  // namespace lockstep::fuzz
