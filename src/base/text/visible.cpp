#include "base/text/visible.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text/utf8.h"

namespace lockstep {
namespace {

struct Range {
  char32_t first, last;
};
// Beyond ASCII: control characters, marks of direction, separators of lines, characters without a width but the joiners of
// scripts and emoji, and tags.
constexpr std::array<Range, 10> hidden = {{{0x80, 0x9F},
                                           {0x61C, 0x61C},
                                           {0x180E, 0x180E},
                                           {0x200B, 0x200B},
                                           {0x200E, 0x200F},
                                           {0x2028, 0x202E},
                                           {0x2060, 0x206F},
                                           {0xFEFF, 0xFEFF},
                                           {0xFFF9, 0xFFFB},
                                           {0xE0000, 0xE007F}}};

bool is_hidden(char32_t point) {
  return std::ranges::any_of(hidden, [&](const Range& range) { return range.first <= point && point <= range.last; });
}

bool is_printed(unsigned char byte) { return byte >= 0x20 && byte < 0x7F; }

std::string escaped(char32_t point) {
  if (point == '\n') return "\\n";
  if (point == '\r') return "\\r";
  if (point == '\t') return "\\t";
  if (point < 0x80) return fmt::format("\\x{:02x}", static_cast<unsigned>(point));
  return point < 0x10000 ? fmt::format("\\u{:04x}", static_cast<unsigned>(point))
                         : fmt::format("\\U{:08x}", static_cast<unsigned>(point));
}

}  // namespace

std::string visible(std::string_view text, LineBreaks breaks) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (is_printed(byte) || (breaks == LineBreaks::kept && (byte == '\n' || byte == '\t'))) {
      out += text[at++];
      continue;
    }
    const CodePoint point = code_point_at(text, at);
    if (point.length == 0) {
      out += fmt::format("\\x{:02x}", byte);
      ++at;
      continue;
    }
    out += byte < 0x80 || is_hidden(point.value) ? escaped(point.value) : std::string(text.substr(at, point.length));
    at += point.length;
  }
  return out;
}

}  // namespace lockstep
