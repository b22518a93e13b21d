#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>

#include "base/terminal.h"
#include "base/text/ticks.h"

namespace lockstep {
namespace {

constexpr int canvas_rows = 18, most_y_ticks = 7, most_x_ticks = 12;
constexpr int narrowest = 40, widest = 120;
/// A cell of the first series' line has 2 x 4 dots.
constexpr int dots_across = 2, dots_down = 4;
/// Marks of the second, third, ... series, whose lines have a mark in each cell; letters follow.
constexpr std::array marks{"•", "×", "+", "o", "*", "#", "%", "@"};
constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

std::string_view mark_of(std::size_t series) {
  const std::size_t mark = series - 1;
  return mark < marks.size() ? marks[mark] : letters.substr((mark - marks.size()) % letters.size(), 1);
}

/// The character with these dots, in UTF-8.
std::string braille(unsigned dots) {
  return {'\xE2', static_cast<char>(0xA0U | (dots >> 6U)), static_cast<char>(0x80U | (dots & 0x3FU))};
}

/// Bit of the dot in its character: rows 0 to 2 of the left and right column, then row 3.
unsigned dot_bit(int column, int row) {
  return row < 3 ? 1U << static_cast<unsigned>(3 * column + row) : 1U << static_cast<unsigned>(6 + column);
}

/// Place 0 .. places - 1 of `value`, from low to high.
int place(const Extent& extent, double value, int places) {
  return std::clamp(static_cast<int>(std::lround(extent.part(value) * (places - 1))), 0, places - 1);
}
/// The same from high to low, as rows are counted.
int place_below(const Extent& extent, double value, int places) { return places - 1 - place(extent, value, places); }

bool drawable(const Series& series, std::size_t i) { return std::isfinite(series.x[i]) && std::isfinite(series.y[i]); }
std::size_t points_of(const Series& series) { return std::min(series.x.size(), series.y.size()); }

/// The characters inside the frame.
class Canvas {
 public:
  Canvas(int columns, Extent x, Extent y)
      : columns_(columns), x_(x), y_(y), cells_(static_cast<std::size_t>(columns) * canvas_rows) {}

  /// A line from point to point; what is not finite leaves a gap.
  void draw(const Series& series, std::size_t index) {
    Dot before{};
    bool connected = false;
    for (std::size_t i = 0; i < points_of(series); ++i) {
      if (!drawable(series, i)) {
        connected = false;
        continue;
      }
      const Dot dot{place(x_, series.x[i], dots_across * columns_), place_below(y_, series.y[i], dots_down * canvas_rows)};
      const bool alone = !connected && (i + 1 == points_of(series) || !drawable(series, i + 1));
      line(connected ? before : dot, alone ? Dot{dot.column ^ 1, dot.row ^ 1} : dot, index);  // one dot alone is not seen
      before = dot;
      connected = true;
    }
  }
  std::string row(int index) const {
    std::string text;
    for (int column = 0; column < columns_; ++column) text += shown(cells_[at(column, index)], column);
    return text;
  }

 private:
  struct Dot {
    int column, row;
  };
  struct Cell {
    unsigned dots = 0;                     // of the first series
    std::vector<std::size_t> series = {};  // that pass here
  };

  void line(Dot from, Dot to, std::size_t series) {
    const int steps = std::max({std::abs(to.column - from.column), std::abs(to.row - from.row), 1});
    for (int i = 0; i <= steps; ++i) {
      const double part = static_cast<double>(i) / steps;
      light({static_cast<int>(std::lround(std::lerp(from.column, to.column, part))),
             static_cast<int>(std::lround(std::lerp(from.row, to.row, part)))},
            series);
    }
  }
  void light(Dot dot, std::size_t series) {
    Cell& cell = cells_[at(dot.column / dots_across, dot.row / dots_down)];
    if (series == 0) cell.dots |= dot_bit(dot.column % dots_across, dot.row % dots_down);
    if (cell.series.empty() || cell.series.back() != series) cell.series.push_back(series);
  }
  /// Series that share cells take turns from column to column, so that none hides another.
  static std::string shown(const Cell& cell, int column) {
    if (cell.series.empty()) return " ";
    const std::size_t series = cell.series[static_cast<std::size_t>(column) % cell.series.size()];
    return series == 0 ? braille(cell.dots) : std::string(mark_of(series));
  }
  std::size_t at(int column, int row) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) + static_cast<std::size_t>(column);
  }
  int columns_;
  Extent x_, y_;
  std::vector<Cell> cells_;
};

std::size_t characters_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; }));
}
std::string blanks(std::size_t count) { return std::string(count, ' '); }

/// `text` in the middle of `columns`.
std::string centred(std::string_view text, std::size_t columns) {
  return blanks((columns - std::min(columns, characters_of(text))) / 2) + std::string(text);
}

struct XAxis {
  std::string edge, labels;  ///< the frame's lower edge with its ticks, and the line below
};

/// Nothing where the labels of so many ticks have no room.
std::optional<XAxis> try_x_axis(const std::vector<Tick>& ticks, const Extent& extent, int columns, std::size_t margin) {
  constexpr std::size_t gap = 4;
  std::vector<std::string_view> edge(static_cast<std::size_t>(columns), "─");
  XAxis axis{.edge = {}, .labels = {}};
  for (const Tick& tick : ticks) {
    const auto column = static_cast<std::size_t>(place(extent, tick.value, columns));
    edge[column] = "┬";
    const std::size_t room = margin + 2 + edge.size(), length = tick.text.size();
    const std::size_t start = std::min(margin + 1 + column - std::min(margin + 1 + column, length / 2), room - length);
    if (!axis.labels.empty() && start < axis.labels.size() + gap) return std::nullopt;
    axis.labels += blanks(start - axis.labels.size()) + tick.text;
  }
  for (const std::string_view piece : edge) axis.edge += piece;
  return axis;
}

XAxis x_axis(const Extent& extent, bool whole, int columns, std::size_t margin) {
  for (int most = most_x_ticks; most > 2; --most) {
    if (const auto axis = try_x_axis(ticks_of(extent, most, whole), extent, columns, margin)) return *axis;
  }
  return try_x_axis({}, extent, columns, margin).value();
}

/// Whether the series are over counts: steps, say.
bool has_whole_x(const std::vector<Series>& series) {
  return std::ranges::all_of(series, [](const Series& one) {
    return std::ranges::all_of(one.x, [](double x) { return !std::isfinite(x) || x == std::round(x); });
  });
}

/// Folded between its entries.
std::string legend(const std::vector<Series>& series, std::size_t margin, std::size_t columns) {
  std::string text, line;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const std::string entry = (i == 0 ? "⠒⠒" : fmt::format("{0}{0}", mark_of(i))) + " " + series[i].name;
    if (!line.empty() && characters_of(line) + 3 + characters_of(entry) > columns) {
      text += line + "\n";
      line.clear();
    }
    line += (line.empty() ? blanks(margin) : "   ") + entry;
  }
  return text + line + "\n";
}

/// The series that a character of a plot stands for; nothing for another one.
std::optional<std::size_t> series_of(std::string_view character) {
  if (character >= braille(0) && character <= braille(255)) return 0;
  for (std::size_t series = 1; series <= marks.size() + letters.size(); ++series) {
    if (mark_of(series) == character) return series;
  }
  return std::nullopt;
}

/// The character at `at`, in UTF-8.
std::string_view character_at(std::string_view text, std::size_t at) {
  std::size_t end = at + 1;
  while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
  return text.substr(at, end - at);
}

/// With a colour on each run of characters of one series.
std::string coloured_marks(std::string_view text, const Paint& paint) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::optional<std::size_t> series = series_of(character_at(text, at));
    std::size_t end = at;
    while (end < text.size() && series_of(character_at(text, end)) == series) end += character_at(text, end).size();
    const std::string_view run = text.substr(at, end - at);
    out += series ? paint.curve(*series, run) : std::string(run);
    at = end;
  }
  return out;
}

/// The first characters of each entry.
std::string coloured_legend(std::string_view line, const Paint& paint) {
  std::string out;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t entry = std::min(line.find_first_not_of(' ', at), line.size());
    const std::size_t name = std::min(line.find(' ', entry), line.size()), next = std::min(line.find("   ", name), line.size());
    out += std::string(line.substr(at, entry - at)) + coloured_marks(line.substr(entry, name - entry), paint) +
           std::string(line.substr(name, next - name));
    at = next;
  }
  return out;
}

}  // namespace

Series thinned(const Series& all, std::size_t most) {
  const std::size_t each = (points_of(all) + most - 1) / most;
  if (each <= 1) return all;
  Series means{.name = all.name, .x = {}, .y = {}};
  for (std::size_t first = 0; first < points_of(all); first += each) {
    double x = 0, y = 0, count = 0;
    for (std::size_t i = first; i < std::min(first + each, points_of(all)); ++i) {
      if (!drawable(all, i)) continue;
      x += all.x[i];
      y += all.y[i];
      ++count;
    }
    means.x.push_back(x / count);  // not finite where there is none
    means.y.push_back(y / count);
  }
  return means;
}

std::string plot(std::string_view title, std::string_view x_label, const std::vector<Series>& all_series, int columns) {
  const int total = std::clamp(columns > 0 ? columns : terminal_width(), narrowest, widest);
  const auto all = static_cast<std::size_t>(total);
  std::vector<Series> series;
  for (const Series& one : all_series) series.push_back(thinned(one, all));
  Extent x, y;
  for (const Series& one : series) {
    for (std::size_t i = 0; i < points_of(one); ++i) {
      if (!drawable(one, i)) continue;
      x.include(one.x[i]);
      y.include(one.y[i]);
    }
  }
  x.settle();
  y.settle();
  std::size_t margin = 0;
  std::array<std::string, canvas_rows> ticks;
  for (const Tick& tick : ticks_of(y, most_y_ticks)) {
    ticks[static_cast<std::size_t>(place_below(y, tick.value, canvas_rows))] = tick.text;
    margin = std::max(margin, tick.text.size());
  }
  const int inner = total - static_cast<int>(margin) - 2;
  Canvas canvas(inner, x, y);
  for (std::size_t i = 0; i < series.size(); ++i) canvas.draw(series[i], i);

  const XAxis axis = x_axis(x, has_whole_x(all_series), inner, margin);
  std::string edge;
  for (int i = 0; i < inner; ++i) edge += "─";
  std::string text = centred(title, all) + "\n" + blanks(margin) + "┌" + edge + "┐\n";
  for (int row = 0; row < canvas_rows; ++row) {
    const std::string_view tick = ticks[static_cast<std::size_t>(row)];
    text += fmt::format("{:>{}}{}{}│\n", tick, margin, tick.empty() ? "│" : "┤", canvas.row(row));
  }
  text += blanks(margin) + "└" + axis.edge + "┘\n" + axis.labels + "\n" + centred(x_label, all) + "\n";
  return series.size() > 1 ? text + legend(series, margin + 1, all) : text;
}

std::string with_coloured_curves(std::string_view text, const Paint& paint) {
  if (!paint.is_on()) return std::string(text);
  constexpr std::string_view wall = "│";
  std::string out;
  bool in_frame = false, in_legend = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    const std::size_t edge = std::min({line.find(wall), line.find("┤"), line.size()});
    in_legend = in_legend ? !line.empty() : line.find("⠒⠒ ") != line.npos;
    in_frame = in_frame ? line.find("└") == line.npos : line.find("┌") != line.npos;
    if (in_frame && edge < line.size() && line.ends_with(wall)) {
      const std::size_t first = edge + wall.size();
      out += std::string(line.substr(0, first)) + coloured_marks(line.substr(first, line.size() - first - wall.size()), paint);
      out += wall;
    } else {
      out += in_legend && !in_frame ? coloured_legend(line, paint) : std::string(line);
    }
    if (end < text.size()) out += '\n';
    at = end + 1;
  }
  return out;
}

}  // namespace lockstep
