#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/terminal.h"

namespace lockstep {
namespace {

constexpr int canvas_rows = 18, y_ticks = 7, x_ticks = 5;
constexpr int narrowest = 40, widest = 120;
/// Indexed by the sum of upper left 1, upper right 2, lower left 4, lower right 8.
constexpr std::array quadrants{" ", "▘", "▝", "▀", "▖", "▌", "▞", "▛", "▗", "▚", "▐", "▜", "▄", "▙", "▟", "█"};
/// Marks of the second, third, ... series; the first is drawn in quadrants.
constexpr std::array marks{"•", "×", "+", "o", "*", "#", "%"};

std::string_view mark_of(std::size_t series) { return series == 0 ? "▞" : marks[(series - 1) % marks.size()]; }

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// Gives a range of nothing or of one value some width.
  void settle() {
    if (low > high) low = high = 0;
    if (low == high) {
      const double half = low == 0 ? 1 : std::abs(low) / 10;
      low -= half;
      high += half;
    }
  }
  /// Cell 0 .. cells - 1 of `value`, from low to high.
  int cell(double value, int cells) const {
    const double part = (value / 2 - low / 2) / (high / 2 - low / 2);  // halves: high - low may overflow
    return std::clamp(static_cast<int>(std::lround(part * (cells - 1))), 0, cells - 1);
  }
  double tick(int index, int ticks) const {
    const double part = static_cast<double>(index) / (ticks - 1);
    return low * (1 - part) + high * part;
  }
};

/// Labels of evenly spaced ticks, with as many decimals as tell them apart.
std::vector<std::string> labels(const Range& range, int ticks) {
  const double step = range.high / (ticks - 1) - range.low / (ticks - 1);
  const double magnitude = std::clamp(std::floor(std::log10(step)), -300.0, 300.0);
  const double largest = std::max(std::abs(range.low), std::abs(range.high));
  constexpr double large = 1e4;  // whose tenths nobody reads
  const int decimals = std::max(largest < large ? 1 : 0, 1 - static_cast<int>(magnitude));
  const bool plain = largest < 1e7 && decimals <= 7;
  std::vector<std::string> result;
  for (int i = 0; i < ticks; ++i) {
    double value = range.tick(i, ticks);
    if (std::abs(value) < step * 1e-9) value = 0;  // rounding must not print -0.0
    result.push_back(plain ? fmt::format("{:.{}f}", value, decimals) : fmt::format("{:.4g}", value));
  }
  return result;
}

bool drawable(const Series& series, std::size_t i) { return std::isfinite(series.x[i]) && std::isfinite(series.y[i]); }

/// The characters inside the frame.
class Canvas {
 public:
  Canvas(int columns, Range x, Range y) : columns_(columns), x_(x), y_(y), cells_(cell_count(columns), " ") {}

  void draw(const Series& series, std::size_t index) {
    std::vector<unsigned> lit(cells_.size(), 0);
    for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
      if (!drawable(series, i)) continue;
      const int column = x_.cell(series.x[i], 2 * columns_), row = 2 * canvas_rows - 1 - y_.cell(series.y[i], 2 * canvas_rows);
      lit[at(row / 2, column / 2)] |= 1U << (row % 2 * 2 + column % 2);
    }
    for (std::size_t cell = 0; cell < lit.size(); ++cell) {
      if (lit[cell] != 0) cells_[cell] = index == 0 ? quadrants[lit[cell]] : mark_of(index);
    }
  }
  std::string row(int index) const {
    std::string text;
    for (int column = 0; column < columns_; ++column) text += cells_[at(index, column)];
    return text;
  }

 private:
  static std::size_t cell_count(int columns) { return static_cast<std::size_t>(columns) * canvas_rows; }
  std::size_t at(int row, int column) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) + static_cast<std::size_t>(column);
  }
  int columns_;
  Range x_, y_;
  std::vector<std::string_view> cells_;
};

/// `text` in the middle of `columns`.
std::string centred(std::string_view text, int columns) {
  const int before = (columns - static_cast<int>(text.size())) / 2;
  return std::string(static_cast<std::size_t>(std::max(before, 0)), ' ') + std::string(text);
}

/// The lower edge of the frame with its ticks, and their labels below.
std::string x_axis(const Range& range, int columns, int margin) {
  const std::vector<std::string> texts = labels(range, x_ticks);
  std::vector<std::string_view> edge(static_cast<std::size_t>(columns), "─");
  std::string below(static_cast<std::size_t>(margin + columns + 2), ' ');
  std::size_t free = 0;
  for (int i = 0; i < x_ticks; ++i) {
    const int column = static_cast<int>(std::lround(static_cast<double>(i) * (columns - 1) / (x_ticks - 1)));
    edge[static_cast<std::size_t>(column)] = "┬";
    const std::string& text = texts[static_cast<std::size_t>(i)];
    const int wanted = margin + 1 + column - static_cast<int>(text.size()) / 2;
    const auto start = static_cast<std::size_t>(std::clamp(wanted, 0, static_cast<int>(below.size() - text.size())));
    if (start < free) continue;  // no room beside its neighbour
    below.replace(start, text.size(), text);
    free = start + text.size() + 1;
  }
  std::string axis = std::string(static_cast<std::size_t>(margin), ' ') + "└";
  for (const std::string_view piece : edge) axis += piece;
  below.erase(below.find_last_not_of(' ') + 1);
  return axis + "┘\n" + below + "\n";
}

std::string legend(const std::vector<Series>& series) {
  std::string text;
  for (std::size_t i = 0; i < series.size(); ++i) text += fmt::format("{}{} {}", i == 0 ? "" : "   ", mark_of(i), series[i].name);
  return text;
}

}  // namespace

std::string plot(std::string_view title, std::string_view x_label, const std::vector<Series>& series, int columns) {
  Range x, y;
  for (const Series& one : series) {
    for (std::size_t i = 0; i < std::min(one.x.size(), one.y.size()); ++i) {
      if (!drawable(one, i)) continue;
      x.include(one.x[i]);
      y.include(one.y[i]);
    }
  }
  x.settle();
  y.settle();
  const std::vector<std::string> y_texts = labels(y, y_ticks);
  std::size_t margin = 0;
  for (const std::string& text : y_texts) margin = std::max(margin, text.size());
  const int total = std::clamp(columns > 0 ? columns : terminal_width(), narrowest, widest);
  const int inner = total - static_cast<int>(margin) - 2;
  Canvas canvas(inner, x, y);
  for (std::size_t i = 0; i < series.size(); ++i) canvas.draw(series[i], i);

  std::array<std::string_view, canvas_rows> ticks{};
  for (int i = 0; i < y_ticks; ++i)
    ticks[static_cast<std::size_t>(canvas_rows - 1 - y.cell(y.tick(i, y_ticks), canvas_rows))] =
        y_texts[static_cast<std::size_t>(i)];
  std::string edge;
  for (int i = 0; i < inner; ++i) edge += "─";
  std::string text = centred(title, total) + "\n" + std::string(margin, ' ') + "┌" + edge + "┐\n";
  for (int row = 0; row < canvas_rows; ++row) {
    const std::string_view tick = ticks[static_cast<std::size_t>(row)];
    text += fmt::format("{:>{}}{}{}│\n", tick, margin, tick.empty() ? "│" : "┤", canvas.row(row));
  }
  text += x_axis(x, inner, static_cast<int>(margin));
  text += centred(x_label, total) + "\n";
  if (series.size() > 1) text += std::string(margin + 1, ' ') + legend(series) + "\n";
  return text;
}

}  // namespace lockstep
