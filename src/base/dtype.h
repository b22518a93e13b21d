#pragma once

// Element types.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

enum class DType : std::uint8_t { f32, bf16, i32, i64, u16, u8, f64 };

std::size_t size_of(DType type);
/// The name of safetensors: "F32", "BF16", "I32", "I64", "U16", "U8", "F64".
std::string_view name_of(DType type);
/// The inverse of name_of; throws UserError for a type that is not known.
DType dtype_from_name(std::string_view name);

}  // namespace lockstep
