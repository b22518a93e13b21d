#pragma once

// What Python's str does. Positions are characters; text is valid UTF-8.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data::jinja {

enum class Side : std::uint8_t { left, right, both };

std::size_t character_count(std::string_view text);
std::vector<std::string_view> characters_of(std::string_view text);
bool is_space(char32_t point);

/// The text without the characters of `set` at its ends; without white space where there is no set.
std::string_view stripped(std::string_view text, Side side, std::optional<std::string_view> set = std::nullopt);

/// The parts of a text between separators, which must not be empty; without one, between runs of white space. most < 0: cut at
/// all.
std::vector<std::string_view> split(std::string_view text, std::optional<std::string_view> separator, std::int64_t most = -1);
std::vector<std::string_view> split_from_right(std::string_view text, std::optional<std::string_view> separator,
                                               std::int64_t most);
std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends);
/// The text with `by` in place of `old`, `most` times; most < 0: everywhere.
std::string replaced(std::string_view text, std::string_view old, std::string_view by, std::int64_t most = -1);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalized(std::string_view text);
/// str.title(); by_filter: the filter of that name, which begins words behind other characters.
std::string titled(std::string_view text, bool by_filter);
/// The text with HTML's special characters as entities.
std::string escaped(std::string_view text);

/// isalpha() and the like, by the method's name in `what`.
bool has_only(std::string_view text, std::string_view what);

/// The value of float(text), of int(text); nothing where Python raises ValueError, or where 64 bits do not hold it.
std::optional<double> real_from(std::string_view text);
std::optional<std::int64_t> whole_from(std::string_view text);

}  // namespace lockstep::data::jinja
