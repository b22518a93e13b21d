#include "app/run_summary.h"

#include <fmt/format.h>

#include "base/terminal.h"
#include "base/units.h"

namespace lockstep::app {
namespace {

// The words before the settings of a run on the same ranks.
std::string same_ranks(const Session& session) {
  const int ranks = session.world().size();
  switch (session.transport()) {
    case Transport::self:
      return "lockstep train";
    case Transport::thread:
      return fmt::format("lockstep train --ranks {}", ranks);
    case Transport::mpi:
      return fmt::format("lockstep launch -n {} -- train", ranks);
  }
  return {};
}

}  // namespace

void print_summary(const train::TrainingHistory& history, const io::Path& folder, const RunConfig& config, const Session& session,
                   std::FILE* out) {
  if (!history.train.x.empty()) {
    fmt::print(out, "\n{}\n", plot("loss", "step", {history.train, history.validation}));
  }
  if (!history.sample.empty()) fmt::print(out, "A sample:\n\n{}\n\n", history.sample);
  if (history.tokens_per_second > 0) fmt::print(out, "Speed:       {} tokens/s (median)\n", format_si(history.tokens_per_second));
  if (!history.validation.y.empty())
    fmt::print(out, "Validation:  loss {:.4f} after {} steps\n", history.validation.y.back(), history.steps);
  if (history.staleness) {
    fmt::print(out, "Staleness:   mean {:.2f}, most {} updates between pull and update\n", history.staleness->mean,
               history.staleness->greatest);
  }
  fmt::print(out, "Run folder:  {}\n", folder.string());
  if (history.diverged) return;
  if (history.stopped) {
    fmt::print(out,
               "Stopped:     {}; everything is saved. Go on with:\n             {} --config {}/config.toml log.dir={} "
               "train.init_from=resume\n",
               *history.stopped, same_ranks(session), folder.string(), folder.string());
  } else {
    fmt::print(out, "Try next:    lockstep generate --model {} --prompt \"{}\"\n", folder.string(), config.sample.prompt);
  }
}

}  // namespace lockstep::app
