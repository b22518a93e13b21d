#include "train/report/progress_bar.h"

#include <fmt/format.h>

#include "base/units.h"
#include "train/report/log_lines.h"

namespace lockstep::train {

void RunBar::step_done(const Metrics& m) {
  bar_.update(static_cast<double>(m.step), fmt::format("{}  {} tokens/s", loss_in_words(m), format_si(m.tps)));
}

}  // namespace lockstep::train
