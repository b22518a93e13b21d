#include "app/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "app/cli/page.h"
#include "base/units.h"

namespace lockstep::app {

const std::string_view chart_style = R"(
:root { --c0: #1565c0; --c1: #c75300; --c2: #2e7d32; --c3: #8e24aa; --c4: #b8860b; --c5: #00838f; --c6: #ad1457; --c7: #5d6770; }
@media (prefers-color-scheme: dark) { :root { --c0: #64b5f6; --c1: #ffab66; --c2: #81c784; --c3: #ce93d8; --c4: #e6c65c;
  --c5: #4dd0e1; --c6: #f48fb1; --c7: #aab4bd; } }
figure { margin: .4rem 0 1rem; } figcaption { font-weight: 600; }
svg.chart { width: 100%; height: auto; display: block; }
.chart text { fill: currentColor; font-size: 12px; } .chart .grid { stroke: var(--line); } .chart .axis { stroke: currentColor; }
.chart polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; } .chart .dashed { stroke-dasharray: 6 4; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; font-size: .9em; } .legend i { display: inline-block; width: 1.3em;
  height: .22em; vertical-align: middle; margin-right: .4em; } .legend i.dashed { opacity: .5; } .legend i.part { height: .8em; }
.s0 { stroke: var(--c0); } .s1 { stroke: var(--c1); } .s2 { stroke: var(--c2); } .s3 { stroke: var(--c3); }
.s4 { stroke: var(--c4); } .s5 { stroke: var(--c5); } .s6 { stroke: var(--c6); } .s7 { stroke: var(--c7); }
.f0 { fill: var(--c0); background: var(--c0); } .f1 { fill: var(--c1); background: var(--c1); }
.f2 { fill: var(--c2); background: var(--c2); } .f3 { fill: var(--c3); background: var(--c3); }
.f4 { fill: var(--c4); background: var(--c4); } .f5 { fill: var(--c5); background: var(--c5); }
.f6 { fill: var(--c6); background: var(--c6); } .f7 { fill: var(--c7); background: var(--c7); }
)";

namespace {

constexpr double width = 960, height = 300, left = 64, right = 16, top = 10, bottom = 44;
constexpr std::size_t colours = 8, most_points = 600;

struct Extent {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  double part(double value) const { return (value - low) / (high - low); }
};

/// 1, 2 or 5 times a power of ten, so that an extent of `length` has some five of them.
double tick_step(double length) {
  const double rough = length / 5, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double times : {1.0, 2.0, 5.0}) {
    if (rough <= times * power) return times * power;
  }
  return 10 * power;
}

/// An extent of nothing or of one value gets some width. Returns the step of its ticks.
double settle(Extent& extent) {
  if (extent.low > extent.high) extent = {0, 1};
  if (extent.high - extent.low < 1e-12 * std::max(std::abs(extent.low), std::abs(extent.high)) || extent.low == extent.high) {
    const double half = extent.low == 0 ? 1 : std::abs(extent.low) / 10;
    extent = {extent.low - half, extent.high + half};
  }
  return tick_step(extent.high - extent.low);
}

std::string tick_text(double value, double step) {
  if (std::abs(value) < step / 1e6) return "0";
  if (std::abs(value) >= 10000) return format_si(value);
  return fmt::format("{:.{}f}", value, std::clamp(-static_cast<int>(std::floor(std::log10(step))), 0, 9));
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>", x, y, anchor, escaped(text));
}

/// Of more points than can be seen, means of neighbours; without what is not finite.
Series drawable(const Series& all) {
  Series kept{.name = all.name, .x = {}, .y = {}};
  for (std::size_t i = 0; i < all.x.size(); ++i) {
    if (!std::isfinite(all.x[i]) || !std::isfinite(all.y[i])) continue;
    kept.x.push_back(all.x[i]);
    kept.y.push_back(all.y[i]);
  }
  const std::size_t each = (kept.x.size() + most_points - 1) / most_points;
  if (each <= 1) return kept;
  Series means{.name = all.name, .x = {}, .y = {}};
  for (std::size_t first = 0; first < kept.x.size(); first += each) {
    const std::size_t count = std::min(each, kept.x.size() - first);
    const auto mean = [&](const std::vector<double>& values) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
      return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(count), 0.0) / static_cast<double>(count);
    };
    means.x.push_back(mean(kept.x));
    means.y.push_back(mean(kept.y));
  }
  return means;
}

struct Frame {
  Extent x, y;
  double at_x(double value) const { return left + x.part(value) * (width - left - right); }
  double at_y(double value) const { return height - bottom - y.part(value) * (height - top - bottom); }
};

std::string axes(const Frame& frame, double x_step, double y_step, std::string_view x_label) {
  std::string svg;
  for (int i = 0; frame.y.low + i * y_step <= frame.y.high + y_step / 2; ++i) {
    const double value = frame.y.low + i * y_step, y = frame.at_y(value);
    svg += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", left, width - right, y, y);
    svg += text_at(left - 8, y + 4, "end", tick_text(value, y_step));
  }
  const double first = std::ceil(frame.x.low / x_step) * x_step;
  for (int i = 0; first + i * x_step <= frame.x.high + x_step / 1e6; ++i) {
    const double value = first + i * x_step, x = frame.at_x(value);
    svg += fmt::format("<line class=\"axis\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\"/>", x, x, height - bottom,
                       height - bottom + 4);
    svg += text_at(x, height - bottom + 18, "middle", tick_text(value, x_step));
  }
  svg += fmt::format("<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", left, width - right, height - bottom,
                     height - bottom);
  return svg + text_at((left + width - right) / 2, height - 8, "middle", x_label);
}

std::string line_of(const Curve& curve, const Frame& frame) {
  const Series points = drawable(curve.series);
  const std::size_t colour = curve.colour % colours;
  std::string title = fmt::format("<title>{}</title>", escaped(curve.series.name));
  if (points.x.size() == 1) {
    return fmt::format("<circle class=\"f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\">{}</circle>", colour, frame.at_x(points.x[0]),
                       frame.at_y(points.y[0]), title);
  }
  std::string places;
  for (std::size_t i = 0; i < points.x.size(); ++i)
    places += fmt::format("{:.1f},{:.1f} ", frame.at_x(points.x[i]), frame.at_y(points.y[i]));
  return fmt::format("<polyline class=\"s{}{}\" points=\"{}\">{}</polyline>", colour, curve.dashed ? " dashed" : "", places,
                     title);
}

std::string legend_entry(std::size_t colour, std::string_view kind, std::string_view text) {
  return fmt::format("<span><i class=\"f{} {}\"></i>{}</span>", colour % colours, kind, escaped(text));
}

std::string figure(std::string_view title, const std::string& legend, double of_height, const std::string& svg) {
  return fmt::format(
      "<figure><figcaption>{0}</figcaption><div class=\"legend\">{1}</div><svg class=\"chart\" viewBox=\"0 0 {2:.0f} {3:.0f}\" "
      "role=\"img\" aria-label=\"{0}\">{4}</svg></figure>\n",
      escaped(title), legend, width, of_height, svg);
}

}  // namespace

std::string line_chart(std::string_view title, std::string_view x_label, const std::vector<Curve>& curves, bool from_zero) {
  Frame frame;
  if (from_zero) frame.y.include(0);
  std::string legend;
  for (const Curve& curve : curves) {
    const Series points = drawable(curve.series);
    for (const double x : points.x) frame.x.include(x);
    for (const double y : points.y) frame.y.include(y);
    legend += legend_entry(curve.colour, curve.dashed ? "dashed" : "line", curve.series.name);
  }
  const double x_step = settle(frame.x), y_step = settle(frame.y);
  frame.y = {std::floor(frame.y.low / y_step) * y_step, std::ceil(frame.y.high / y_step) * y_step};
  std::string svg = axes(frame, x_step, y_step, x_label);
  for (const Curve& curve : curves) svg += line_of(curve, frame);
  return figure(title, legend, height, svg);
}

std::string bar_chart(std::string_view title, const std::vector<std::string>& names, const std::vector<Bar>& bars) {
  constexpr double row = 46, thick = 20;
  double longest = 0;
  for (const Bar& bar : bars) longest = std::max(longest, std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0));
  std::string legend, svg;
  for (std::size_t part = 0; part < names.size(); ++part) legend += legend_entry(part, "part", names[part]);
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const double y = row * static_cast<double>(i);
    svg += text_at(0, y + 14, "start", bars[i].label);
    double x = 0;
    for (std::size_t part = 0; part < names.size() && longest > 0; ++part) {
      const double wide = bars[i].parts[part] / longest * width;
      svg +=
          fmt::format("<rect class=\"f{}\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\"><title>{}: {}</title></rect>",
                      part % colours, x, y + 20, wide, thick, escaped(names[part]), escaped(bars[i].figures[part]));
      x += wide;
    }
  }
  return figure(title, legend, row * static_cast<double>(bars.size()), svg);
}

}  // namespace lockstep::app
