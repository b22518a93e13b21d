#include "lab/scaling.h"

#include <fmt/format.h>

#include "base/terminal.h"
#include "base/units.h"

namespace lockstep::lab {

double ScalingCurve::speed_up(std::size_t row) const { return rows.at(row).tokens_per_second / rows.front().tokens_per_second; }

double ScalingCurve::efficiency(std::size_t row) const {
  return speed_up(row) * static_cast<double>(rows.front().ranks) / static_cast<double>(rows.at(row).ranks);
}

Answer answer_of(const std::string& shape, const std::vector<ScalingCurve>& curves) {
  Answer answer;
  answer.fact("shape", shape);
  std::vector<Series> series;
  for (const ScalingCurve& curve : curves) {
    answer.say(fmt::format("{} scaling of {}, one thread a rank\n", curve.kind, shape));
    Table table({{"ranks", "ranks"},
                 {"tokens_per_s", "tokens/s", "{:.1f}"},
                 {"step_s", "step"},
                 {"speed_up", "speed-up", "{:.2f}x"},
                 {"efficiency", "efficiency", "{:.0f}%", 100},
                 {"exposed_s", "exposed communication"}});
    Series points{curve.kind, {}, {}};
    for (std::size_t i = 0; i < curve.rows.size(); ++i) {
      const ScalingRow& row = curve.rows[i];
      table.row({row.ranks,
                 row.tokens_per_second,
                 {row.step_seconds, format_seconds(row.step_seconds)},
                 curve.speed_up(i),
                 curve.efficiency(i),
                 {row.exposed_seconds, fmt::format("{} ({:.1f}% of a step)", format_seconds(row.exposed_seconds),
                                                   100 * row.exposed_seconds / row.step_seconds)}});
      points.x.push_back(row.ranks);
      points.y.push_back(curve.speed_up(i));
    }
    answer.table(curve.kind, table);
    answer.say("\n");
    if (curve.rows.size() > 1) series.push_back(std::move(points));
  }
  if (!series.empty()) answer.say(plot("speed-up", "ranks", series) + "\n");
  return answer;
}

}  // namespace lockstep::lab
