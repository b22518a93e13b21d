#pragma once

// Charts of a report's page. They are drawn in HTML and SVG that fit any width; report.js makes them live where scripts run, from
// the points that stand beside each. Colours are report.css's.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/terminal.h"

namespace lockstep::app {

/// The class that gives a run its colour in all charts and tables, and from the ninth run on dashes, too.
std::string class_of_run(std::size_t run);

struct Curve {
  Series series;
  std::size_t run = 0;
  bool validation = false;  ///< a thin line with a ring at each of few points
};
/// Lines over counts, with a legend above. A curve of many points is drawn in fewer, which are means. `from_zero`: y begins at 0.
std::string line_chart(std::string_view title, std::string_view x_label, const std::vector<Curve>& curves, bool from_zero);

struct Bar {
  std::string label;
  std::size_t run = 0;
  std::vector<double> parts;         ///< as many as names
  std::vector<std::string> figures;  ///< the same for people
};
/// A bar for each, of its parts one after the other, all to one scale; a legend above. Parts that are nothing in all are left
/// out.
std::string bar_chart(std::string_view title, const std::vector<std::string>& names, const std::vector<Bar>& bars);

}  // namespace lockstep::app
