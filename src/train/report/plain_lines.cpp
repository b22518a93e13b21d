#include "train/report/plain_lines.h"

#include <fmt/format.h>

#include <string>

#include "base/timer.h"
#include "base/units.h"

namespace lockstep::train {
namespace {

constexpr double quiet_seconds = 10;  ///< without a line, while steps are logged

}  // namespace

void PlainLines::started(const RunState& state) {
  first_ = state.step;
  began_ = now_seconds();
}

void PlainLines::logged(const Metrics& m) {
  const double now = now_seconds();
  if (said_ > 0 && now - said_ < quiet_seconds) return;
  said_ = now;
  std::string left;
  if (m.step > first_ && m.step < steps_) {
    const double each = (now - began_) / static_cast<double>(m.step - first_);
    left = fmt::format(", {} left", format_seconds(each * static_cast<double>(steps_ - m.step)));
  }
  log().info(fmt::format("step {}: {}{}, {} tokens/s{}{}", m.step, loss_in_words(m), line_of(m.figures), format_si(m.tps),
                         lost_in_words(m.late), left));
}

void PlainLines::evaluated(const Losses& losses, double begun) {
  LogLines::evaluated(losses, begun);
  if (losses.step > first_) said_ = now_seconds();
}

}  // namespace lockstep::train
