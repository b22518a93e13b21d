#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "app/launch/environment.h"

namespace lockstep::launch {
namespace {

constexpr std::ptrdiff_t kMostBrackets = 16;  // of one name

// "001-003" or "007": the numbers, padded as the first is; `out` has `most` at most.
bool expand_range(std::string_view range, std::int64_t most, std::vector<std::string>& out) {
  const std::string_view low = range.substr(0, range.find('-'));
  const std::string_view high = low.size() == range.size() ? low : range.substr(low.size() + 1);
  const auto read = [](std::string_view text, std::int64_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() && text[0] != '-';
  };
  std::int64_t from = 0;
  std::int64_t to = 0;
  if (!read(low, from) || !read(high, to) || from > to || to - from >= most - std::ssize(out)) return false;
  for (std::int64_t i = 0; i <= to - from; ++i) out.push_back(fmt::format("{:0{}}", from + i, low.size()));
  return true;
}

// The pieces of `text` between commas outside of brackets.
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> pieces;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      pieces.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    } else {
      depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
    }
  }
  return pieces;
}

// "rack[0-1]n[1-2]": every choice of the first bracket before every name of the rest; at most `most` of them, before memory is
// taken: brackets multiply.
bool expand_name(std::string_view name, std::int64_t most, std::vector<std::string>& out) {
  const std::size_t open = name.find('[');
  const std::size_t close = name.find(']');
  if (open == std::string_view::npos && close == std::string_view::npos) {
    out.emplace_back(name);
    return most >= 1;
  }
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return false;
  std::vector<std::string> numbers;
  for (const std::string_view range : split(name.substr(open + 1, close - open - 1))) {
    if (!expand_range(range, most, numbers)) return false;
  }
  std::vector<std::string> rest;
  if (!expand_name(name.substr(close + 1), most / std::ssize(numbers), rest)) return false;
  for (const std::string& number : numbers) {
    for (const std::string& end : rest) out.push_back(fmt::format("{}{}{}", name.substr(0, open), number, end));
  }
  return true;
}

}  // namespace

std::vector<std::string> expand_node_list(std::string_view list, std::int64_t most) {
  std::vector<std::string> hosts;
  for (const std::string_view name : split(list)) {
    std::vector<std::string> expanded;
    const bool good =
        !name.empty() && std::ranges::count(name, '[') <= kMostBrackets && expand_name(name, most - std::ssize(hosts), expanded);
    if (!good) return {};
    hosts.insert(hosts.end(), expanded.begin(), expanded.end());
  }
  return hosts;
}

}  // namespace lockstep::launch
