#include "base/dtype.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"

namespace lockstep {
namespace {

struct Row {
  std::string_view name;
  std::size_t size;
};
/// In the order of DType.
constexpr std::array<Row, 7> table{{{"F32", 4}, {"BF16", 2}, {"I32", 4}, {"I64", 8}, {"U16", 2}, {"U8", 1}, {"F64", 8}}};

}  // namespace

std::size_t size_of(DType type) { return table[static_cast<std::size_t>(type)].size; }

std::string_view name_of(DType type) { return table[static_cast<std::size_t>(type)].name; }

DType dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].name == name) return static_cast<DType>(i);
  }
  throw UserError(fmt::format("the element type \"{}\" is not known", name), "use F32, BF16, I32, I64, U16, U8 or F64");
}

}  // namespace lockstep
