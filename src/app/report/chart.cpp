#include "app/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "app/cli/page.h"
#include "base/json.h"
#include "base/text/ticks.h"

namespace lockstep::app {
namespace {

constexpr std::size_t colours = 8, colours_of_parts = 7;
constexpr std::size_t most_drawn = 600, most_live = 2000;  // points of a curve, without the script and for it
constexpr std::size_t many_curves = 50;                    // of more, each has fewer points
constexpr std::size_t most_dots = 40, most_rings = 60;     // points that are marked each
constexpr double size = 1000;                              // of a chart's own coordinates, both ways
constexpr int most_x_ticks = 7, most_y_ticks = 6, x_digits = 12, y_digits = 6;

struct Frame {
  Extent x, y;
  std::string place(double at_x, double at_y) const {
    return fmt::format("{:.1f} {:.1f}", size * x.part(at_x), size - size * y.part(at_y));
  }
};

Frame frame_of(const std::vector<Curve>& curves, bool from_zero) {
  Frame frame;
  for (const Curve& curve : curves) {
    for (std::size_t i = 0; i < curve.series.x.size(); ++i) {
      if (!std::isfinite(curve.series.x[i]) || !std::isfinite(curve.series.y[i])) continue;
      frame.x.include(curve.series.x[i]);
      frame.y.include(curve.series.y[i]);
    }
  }
  if (from_zero) frame.y.include(0);
  frame.x.settle();
  frame.y.settle();
  const double room = 0.04 * (frame.y.high - frame.y.low);
  frame.y.high += room;
  if (!from_zero) frame.y.low -= room;
  return frame;
}

std::string axes(const Frame& frame) {
  std::string svg;
  for (const Tick& tick : ticks_of(frame.y, most_y_ticks)) {
    svg += fmt::format(
        "<line class=\"grid\" x2=\"100%\" y1=\"{0:.2f}%\" y2=\"{0:.2f}%\"/>"
        "<text x=\"-8\" y=\"{0:.2f}%\" dy=\"4\" text-anchor=\"end\">{1}</text>",
        100 - 100 * frame.y.part(tick.value), tick.text);
  }
  for (const Tick& tick : ticks_of(frame.x, most_x_ticks, true)) {
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y2=\"100%\"/>"
        "<text x=\"{0:.2f}%\" y=\"100%\" dy=\"18\" text-anchor=\"middle\">{1}</text>",
        100 * frame.x.part(tick.value), tick.text);
  }
  return svg;
}

/// The points of a curve as a path: a line with gaps where something is not finite, or a dot for each.
std::string path_of(const Series& series, const Frame& frame, bool dots) {
  std::string path;
  bool joined = false;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    const bool there = std::isfinite(series.x[i]) && std::isfinite(series.y[i]);
    if (there) path += (joined && !dots ? "L" : "M") + frame.place(series.x[i], series.y[i]) + (dots ? "h0" : "");
    joined = there;
  }
  return path;
}

std::string class_of(const Curve& curve) { return class_of_run(curve.run) + (curve.validation ? " validation" : ""); }

std::string path(std::string_view kind, std::string_view of, std::string_view style, std::string_view points) {
  return fmt::format("<path class=\"{} {}\"{} d=\"{}\"/>", kind, of, style.empty() ? "" : fmt::format(" style=\"{}\"", style),
                     points);
}

std::size_t share_of(std::size_t points, std::size_t curves) {
  constexpr std::size_t least = 50;
  return std::max(least, std::min(points, points * many_curves / curves));
}

/// SVG paths of all curves: their lines, the same lines in dashes that take turns, and marks. Dashes show each of the lines that
/// lie on each other. Marks shrink from run to run, so that those below stay visible.
std::string lines_of(const std::vector<Curve>& curves, const Frame& frame) {
  std::string lines, turns, marks;
  std::set<std::size_t> runs;
  for (const Curve& curve : curves) runs.insert(curve.run);
  constexpr std::size_t dash = 8, most_turns = 6;
  const std::size_t all = std::min(runs.size(), most_turns);
  for (const Curve& curve : curves) {
    const Series series = thinned(curve.series, share_of(most_drawn, curves.size()));
    const std::string of = class_of(curve), points = path_of(series, frame, false);
    const std::size_t turn = curve.run % std::max<std::size_t>(all, 1);
    lines += path("line", of, "", points);
    if (all > 1) {
      turns += path("line", of, fmt::format("stroke-dasharray:{} {};stroke-dashoffset:-{}", dash, dash * (all - 1), dash * turn),
                    points);
    }
    if (series.x.size() > (curve.validation ? most_rings : most_dots)) continue;
    const std::string dots = path_of(series, frame, true);
    const double wider = 1.5 * static_cast<double>(all - 1 - turn);
    const auto mark = [&](std::string_view kind, double wide) {
      marks += path(kind, of, fmt::format("stroke-width:{:.1f}", wide + wider), dots);
    };
    if (curve.validation) mark("ring", 8);
    mark(curve.validation ? "hole" : "dot", curve.validation ? 4.5 : 5);
  }
  return lines + turns + marks;
}

std::string numbers(const std::vector<double>& values, int digits) {
  std::string list;
  for (const double value : values)
    list += (list.empty() ? "" : ",") + (std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : "null");
  return "[" + list + "]";
}

/// JSON between script tags: no text of it ends the script.
std::string in_script(std::string_view text) {
  std::string safe;
  for (const char c : Json(text).dump()) safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return safe;
}

/// What report.js needs of the chart.
std::string live_points(std::string_view x_label, const std::vector<Curve>& curves, bool from_zero) {
  std::string list;
  for (const Curve& curve : curves) {
    const Series series = thinned(curve.series, share_of(most_live, curves.size()));
    list += fmt::format("{}{{\"run\":{},\"class\":\"{}\",\"validation\":{},\"name\":{},\"x\":{},\"y\":{}}}",
                        list.empty() ? "" : ",\n", curve.run, class_of(curve), curve.validation, in_script(series.name),
                        numbers(series.x, x_digits), numbers(series.y, y_digits));
  }
  return fmt::format("<script type=\"application/json\">{{\"label\":{},\"zero\":{},\"curves\":[{}]}}</script>",
                     in_script(x_label), from_zero, list);
}

std::string legend_of(const std::vector<Curve>& curves) {
  std::string legend;
  for (const Curve& curve : curves) {
    if (curve.validation) continue;
    legend += fmt::format("<button type=\"button\" class=\"key\" data-run=\"{}\"><i class=\"{}\"></i>{}</button>", curve.run,
                          class_of_run(curve.run), escaped(curve.series.name));
  }
  const bool has_rings = std::ranges::any_of(curves, &Curve::validation);
  return legend + (has_rings ? "<span class=\"key\"><i class=\"open\"></i>validation</span>" : "");
}

}  // namespace

std::string class_of_run(std::size_t run) { return fmt::format("r{}{}", run % colours, run < colours ? "" : " again"); }

std::string line_chart(std::string_view title, std::string_view x_label, const std::vector<Curve>& curves, bool from_zero) {
  const Frame frame = frame_of(curves, from_zero);
  return fmt::format(
      "<figure class=\"lines\"><figcaption>{0}</figcaption><div class=\"legend\">{1}</div><div class=\"plot\">"
      "<svg class=\"chart\" role=\"img\" aria-label=\"{0} by {2}\"><g class=\"axes\">{3}</g>"
      "<text class=\"name\" x=\"50%\" y=\"100%\" dy=\"36\" text-anchor=\"middle\">{2}</text>"
      "<svg class=\"curves\" width=\"100%\" height=\"100%\" viewBox=\"0 0 {4} {4}\" "
      "preserveAspectRatio=\"none\">{5}</svg></svg></div>\n"
      "{6}</figure>\n",
      escaped(title), legend_of(curves), escaped(x_label), axes(frame), size, lines_of(curves, frame),
      live_points(x_label, curves, from_zero));
}

std::string bar_chart(std::string_view title, const std::vector<std::string>& names, const std::vector<Bar>& bars) {
  double longest = 0;
  for (const Bar& bar : bars) longest = std::max(longest, std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0));
  std::string legend, text;
  std::vector<bool> shown;
  for (std::size_t part = 0; part < names.size(); ++part) {
    shown.push_back(longest > 0 && std::ranges::any_of(bars, [&](const Bar& bar) { return bar.parts[part] > longest / 2000; }));
    if (shown[part])
      legend += fmt::format("<span class=\"key\"><i class=\"p{}\"></i>{}</span>", part % colours_of_parts, escaped(names[part]));
  }
  for (const Bar& bar : bars) {
    text += fmt::format("<div><i class=\"{}\"></i>{}</div><div class=\"bar\">", class_of_run(bar.run), escaped(bar.label));
    for (std::size_t part = 0; part < names.size(); ++part) {
      if (!shown[part]) continue;
      constexpr double least_of_text = 12;
      const double percent = 100 * bar.parts[part] / longest;
      text += fmt::format("<span class=\"p{}\" style=\"width:{:.2f}%\" title=\"{}: {}\">{}</span>", part % colours_of_parts,
                          percent, escaped(names[part]), escaped(bar.figures[part]),
                          percent < least_of_text ? "" : escaped(bar.figures[part]));
    }
    text += "</div>";
  }
  return fmt::format("<figure class=\"bars\"><figcaption>{}</figcaption><div class=\"legend\">{}</div>{}</figure>\n",
                     escaped(title), legend, text);
}

}  // namespace lockstep::app
