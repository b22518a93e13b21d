#include "train/report/progress_bar.h"

#include <fmt/format.h>

#include "base/units.h"

namespace lockstep::train {

void RunBar::step_done(const Metrics& m) {
  bar_.update(static_cast<double>(m.step), fmt::format("loss {:.4f}  {} tokens/s", m.loss, format_si(m.tps)));
}

}  // namespace lockstep::train
