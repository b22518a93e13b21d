#pragma once

// The general category of each code point, by Unicode 16: as tokenizers' and tiktoken's patterns have it.

#include <string_view>

namespace lockstep::data::pattern {

/// Two letters a category; its place in the list is its number.
inline constexpr std::string_view category_names = "LuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCoCn";

/// The runs of code points of one category, from 0 to U+10FFFF. Each has its length, by digits of base 64 from '?' on, and behind
/// it '!' plus the category.
std::string_view category_runs();

}  // namespace lockstep::data::pattern
