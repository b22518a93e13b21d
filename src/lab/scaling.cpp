#include "lab/scaling.h"

#include <fmt/format.h>

#include "base/terminal.h"
#include "base/units.h"

namespace lockstep::lab {

double ScalingCurve::speed_up(std::size_t row) const { return rows.at(row).tokens_per_second / rows.front().tokens_per_second; }

double ScalingCurve::efficiency(std::size_t row) const {
  return speed_up(row) * static_cast<double>(rows.front().ranks) / static_cast<double>(rows.at(row).ranks);
}

std::string to_text(const std::string& shape, const std::vector<ScalingCurve>& curves) {
  std::string text;
  std::vector<Series> series;
  for (const ScalingCurve& curve : curves) {
    text += fmt::format("{} scaling of {}, one thread a rank\n", curve.kind, shape);
    text += "ranks     tokens/s       step   speed-up   efficiency   exposed communication\n";
    Series points{curve.kind, {}, {}};
    for (std::size_t i = 0; i < curve.rows.size(); ++i) {
      const ScalingRow& row = curve.rows[i];
      text += fmt::format("{:>5}   {:>10.1f}   {:>8}   {:>7.2f}x   {:>9.0f}%   {:>9} ({:.1f}% of a step)\n", row.ranks,
                          row.tokens_per_second, format_seconds(row.step_seconds), curve.speed_up(i), 100 * curve.efficiency(i),
                          format_seconds(row.exposed_seconds), 100 * row.exposed_seconds / row.step_seconds);
      points.x.push_back(row.ranks);
      points.y.push_back(curve.speed_up(i));
    }
    text += "\n";
    if (curve.rows.size() > 1) series.push_back(std::move(points));
  }
  return series.empty() ? text : text + plot("speed-up", "ranks", series) + "\n";
}

Json to_json(const std::string& shape, const std::vector<ScalingCurve>& curves) {
  Json json;
  json.set("shape", shape);
  for (const ScalingCurve& curve : curves) {
    Json::Array rows;
    for (std::size_t i = 0; i < curve.rows.size(); ++i) {
      const ScalingRow& row = curve.rows[i];
      Json entry;
      entry.set("ranks", row.ranks);
      entry.set("tokens_per_s", row.tokens_per_second);
      entry.set("step_s", row.step_seconds);
      entry.set("speed_up", curve.speed_up(i));
      entry.set("efficiency", curve.efficiency(i));
      entry.set("exposed_s", row.exposed_seconds);
      rows.push_back(std::move(entry));
    }
    json.set(curve.kind, std::move(rows));
  }
  return json;
}

}  // namespace lockstep::lab
