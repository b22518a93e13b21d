#include "app/run_summary.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "app/plan/run_prediction.h"
#include "base/terminal.h"
#include "base/units.h"
#include "lab/process.h"

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

std::string summary(const train::TrainingHistory& history, const io::Path& folder, const RunConfig& config,
                    const Session& session) {
  std::string text;
  const auto add = [&text]<class... Values>(fmt::format_string<Values...> form, Values&&... values) {
    text += fmt::format(form, std::forward<Values>(values)...);
  };
  if (!history.train.x.empty()) {
    add("\n{}\n", plot("loss", "step", {history.train, history.validation}));
  }
  if (!history.sample.empty()) add("A sample:\n\n{}\n\n", history.sample);
  if (history.tokens_per_second > 0) add("Speed:       {} tokens/s (median)\n", format_si(history.tokens_per_second));
  if (!history.validation.y.empty()) add("Validation:  loss {:.4f} after {} steps\n", history.validation.y.back(), history.steps);
  if (history.staleness) {
    add("Staleness:   mean {:.2f}, most {} updates between pull and update\n", history.staleness->mean,
        history.staleness->greatest);
  }
  if (history.offload) {
    const train::TrainingHistory::Offload& last = *history.offload;
    add("Offload:     {} read and {} written in the last step, of whose {} it waited {} for them\n",
        format_bytes(static_cast<std::uint64_t>(last.traffic.read)),
        format_bytes(static_cast<std::uint64_t>(last.traffic.written)), format_seconds(last.seconds),
        format_seconds(last.traffic.waited));
  }
  add("Memory:      {} resident at the most\n", format_bytes(static_cast<std::uint64_t>(lab::peak_resident_mib()) << 20));
  if (config.log.machine) add("Prediction:  {}\n", prediction_line(folder, *config.log.machine));
  add("Run folder:  {}\n", folder.string());
  if (history.diverged) return text;
  if (history.stopped) {
    add("Stopped:     {}; everything is saved. Go on with:\n             {} --config {}/config.toml log.dir={} "
        "train.init_from=resume\n",
        *history.stopped, same_ranks(session), folder.string(), folder.string());
  } else {
    add("Try next:    lockstep generate --model {} --prompt \"{}\"\n", folder.string(), config.sample.prompt);
  }
  return text;
}

}  // namespace

void print_summary(const train::TrainingHistory& history, const io::Path& folder, const RunConfig& config, const Session& session,
                   std::FILE* out) {
  say(out, summary(history, folder, config, session));
}

}  // namespace lockstep::app
