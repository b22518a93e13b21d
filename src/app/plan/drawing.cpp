#include "app/plan/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace lockstep::app {
namespace {

using layout::TimedPass;
using Kind = layout::Action::Kind;

char letter_of(const layout::Action& action) {
  const char letter = "FBIW"[static_cast<std::size_t>(action.kind)];
  return static_cast<char>(action.chunk == 0 ? letter : letter - 'A' + 'a');
}

double shortest_pass(const layout::Timeline& timeline) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const std::vector<TimedPass>& rank : timeline.ranks) {
    for (const TimedPass& pass : rank) shortest = std::min(shortest, pass.end - pass.start);
  }
  return shortest;
}

std::size_t widest_number(const layout::Timeline& timeline) {
  int most = 0;
  for (const std::vector<TimedPass>& rank : timeline.ranks) {
    for (const TimedPass& pass : rank) most = std::max(most, pass.action.microbatch.value);
  }
  return fmt::format("{}", most).size();
}

/// One rank's passes in cells of `width` characters; a pass of several cells is drawn out.
std::string cells(const std::vector<TimedPass>& passes, double unit, std::size_t width) {
  std::string line;
  for (const TimedPass& pass : passes) {
    const auto place = [&](double time) { return static_cast<std::size_t>(std::lround(time / unit)) * width; };
    const std::size_t end = std::max(place(pass.end), place(pass.start) + width);
    line.resize(std::max(line.size(), place(pass.start)), ' ');
    std::string cell = fmt::format("{}{}", letter_of(pass.action), pass.action.microbatch.value);
    cell.resize(std::max(cell.size(), end - place(pass.start) - 1), '-');
    line += cell + ' ';
  }
  return line;
}

struct Colour {
  const char *first, *later;  ///< of a rank's first chunk, and of its others
};
Colour colour_of(Kind kind) {
  static constexpr std::array<Colour, 4> colours{{{"#4c78c9", "#a9c1ea"},    // forward
                                                  {"#3a9b6c", "#9fd4b9"},    // backward
                                                  {"#3a9b6c", "#9fd4b9"},    // gradients of inputs
                                                  {"#e0a63a", "#f3d89b"}}};  // of weights
  return colours[static_cast<std::size_t>(kind)];
}

// Where a reader prefers dark colours the classes have others.
constexpr std::string_view ink = "class=\"ink\" fill=\"#222\"", soft = "class=\"soft\" fill=\"#666\"", on_dark = "fill=\"white\"",
                           on_pale = "fill=\"#222\"";
constexpr std::string_view dark_style =
    "<style>@media (prefers-color-scheme: dark) {\n"
    ".schedule .paper { fill: #1c1c1e; } .schedule .lane { fill: #333336; } .schedule .pass { stroke: #1c1c1e; }\n"
    ".schedule .ink { fill: #e4e4e4; } .schedule .soft { fill: #a5a5a5; }\n"
    "}</style>\n";

std::string text_at(double x, double y, int size, std::string_view paint, std::string_view anchor, std::string_view text) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" {} text-anchor=\"{}\" font-family=\"sans-serif\">{}</text>\n", x, y, size,
      paint, anchor, text);
}

constexpr double left = 70, top = 78, row = 34, bar = 26, right = 24;

std::string pass_bar(const TimedPass& pass, double per_unit, double y) {
  const bool first = pass.action.chunk == 0;
  const Colour colour = colour_of(pass.action.kind);
  const double x = left + pass.start * per_unit, width = (pass.end - pass.start) * per_unit;
  std::string svg = fmt::format(
      "<rect class=\"pass\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\" stroke=\"white\" "
      "stroke-width=\"0.8\"/>\n",
      x, y, width, bar, first ? colour.first : colour.later);
  const std::string number = fmt::format("{}", pass.action.microbatch.value);
  if (width >= 7.0 * static_cast<double>(number.size()) + 3) {
    const bool dark = first && pass.action.kind != Kind::weight_backward;
    svg += text_at(x + width / 2, y + 17, 11, dark ? on_dark : on_pale, "middle", number);
  }
  return svg;
}

std::string legend(double y) {
  struct Entry {
    Kind kind;
    const char* text;
  };
  std::string svg;
  double x = left;
  for (const Entry& entry : {Entry{Kind::forward, "forward"}, Entry{Kind::backward, "backward, or its input's gradient"},
                             Entry{Kind::weight_backward, "weights' gradients apart"}}) {
    const Colour colour = colour_of(entry.kind);
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"12\" fill=\"{}\"/>\n", x, y, colour.first);
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"12\" fill=\"{}\"/>\n", x + 15, y, colour.later);
    svg += text_at(x + 36, y + 11, 12, ink, "start", entry.text);
    x += 60 + 6.6 * static_cast<double>(std::string_view(entry.text).size());
  }
  return svg + text_at(x, y + 11, 12, soft, "start", "(paler: a rank's later chunks)");
}

}  // namespace

std::string draw_text(const layout::Timeline& timeline, int columns) {
  const double unit = shortest_pass(timeline);
  const std::size_t width = widest_number(timeline) + 2, head = fmt::format("rank {}  ", timeline.ranks.size() - 1).size();
  const std::size_t room =
      std::max<std::size_t>(
          1, (static_cast<std::size_t>(columns) - std::min<std::size_t>(head, static_cast<std::size_t>(columns))) / width) *
      width;
  std::vector<std::string> lines;
  std::size_t longest = 0;
  for (const std::vector<TimedPass>& passes : timeline.ranks) {
    lines.push_back(cells(passes, unit, width));
    longest = std::max(longest, lines.back().size());
  }
  std::string text;
  for (std::size_t from = 0; from < longest; from += room) {
    if (from > 0) text += '\n';
    for (std::size_t rank = 0; rank < lines.size(); ++rank) {
      std::string part = from < lines[rank].size() ? lines[rank].substr(from, room) : "";
      part.erase(part.find_last_not_of(' ') + 1);
      text += fmt::format("{:<{}}{}\n", fmt::format("rank {}", rank), head, part);
    }
  }
  return text;
}

std::string draw_svg(const layout::Timeline& timeline, const std::string& title, const std::string& subtitle) {
  const double per_unit = std::max(1100 / timeline.makespan, 6 / shortest_pass(timeline));
  const double width = left + timeline.makespan * per_unit + right;
  const double bottom = top + row * static_cast<double>(timeline.ranks.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"schedule\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\">\n{2}"
      "<rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      width, bottom + 62, dark_style);
  svg += text_at(left, 30, 18, ink, "start", title) + text_at(left, 54, 13, soft, "start", subtitle);
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    const double y = top + row * static_cast<double>(rank);
    svg += text_at(left - 10, y + 17, 12, ink, "end", fmt::format("rank {}", rank));
    svg += fmt::format("<rect class=\"lane\" x=\"{}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"#f1f1f1\"/>\n", left, y,
                       timeline.makespan * per_unit, bar);
    for (const TimedPass& pass : timeline.ranks[rank]) svg += pass_bar(pass, per_unit, y);
  }
  svg += text_at(left, bottom + 14, 11, soft, "start", "0");
  svg += text_at(left + timeline.makespan * per_unit, bottom + 14, 11, soft, "end", fmt::format("{:.4g}", timeline.makespan));
  return svg + legend(bottom + 30) + "</svg>\n";
}

}  // namespace lockstep::app
