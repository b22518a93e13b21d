#pragma once

// Charts as inline SVG, in the colours of the page around them: series and parts have the classes c0 to c7, which the page's
// style (chart_style) colours for light and dark.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/terminal.h"

namespace lockstep::app {

extern const std::string_view chart_style;

struct Curve {
  Series series;
  std::size_t colour = 0;
  bool dashed = false;
};
/// Lines over x with a legend above. Of many points each drawn one is the mean of some. `from_zero`: y begins at 0.
std::string line_chart(std::string_view title, std::string_view x_label, const std::vector<Curve>& curves, bool from_zero);

struct Bar {
  std::string label;
  std::vector<double> parts;         ///< as many as names
  std::vector<std::string> figures;  ///< the same for people
};
/// A bar for each, of its parts one after the other, all to one scale; a legend above.
std::string bar_chart(std::string_view title, const std::vector<std::string>& names, const std::vector<Bar>& bars);

}  // namespace lockstep::app
