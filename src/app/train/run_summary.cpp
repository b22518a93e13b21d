#include "app/train/run_summary.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "app/plan/run_prediction.h"
#include "base/shell.h"
#include "base/terminal.h"
#include "base/text/paint.h"
#include "base/text/visible.h"
#include "base/units.h"
#include "lab/process.h"

namespace lockstep::app {
namespace {

// What resumes the run, on as many ranks.
std::string going_on(const io::Path& folder, const Session& session) {
  const std::string ranks = fmt::format("{}", session.world().size());
  std::vector<std::string> words{"train"};
  if (session.transport() == Transport::thread) words.insert(words.end(), {"--ranks", ranks});
  if (session.transport() == Transport::mpi) words = {"launch", "-n", ranks, "train"};
  words.insert(words.end(),
               {"--config", (folder / "config.toml").string(), "log.dir=" + folder.string(), "train.init_from=resume"});
  return own_command(std::move(words));
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
  if (!history.validation.y.empty())
    add("Validation:  loss {:.4f} after {:.0f} steps\n", history.validation.y.back(), history.validation.x.back());
  const train::StepResult& last = history.last;
  if (const auto& staleness = last.staleness)
    add("Staleness:   mean {:.2f}, most {} updates between pull and update\n", staleness->mean, staleness->greatest);
  if (const auto& offload = last.offload) {
    add("Offload:     {} read and {} written in the last step, of whose {} it waited {} for them\n",
        format_bytes(static_cast<std::uint64_t>(offload->read)), format_bytes(static_cast<std::uint64_t>(offload->written)),
        format_seconds(last.forward_seconds + last.backward_seconds + last.update_seconds), format_seconds(offload->waited));
  }
  add("Memory:      {} resident at the most\n", format_bytes(static_cast<std::uint64_t>(lab::peak_resident_mib()) << 20));
  if (config.log.machine) add("Prediction:  {}\n", prediction_line(folder, *config.log.machine));
  add("Run folder:  {}\n", folder.string());
  if (history.diverged) return text;
  if (config.train.eval_only) {
    if (history.stopped) add("Stopped:     {}; nothing is measured\n", *history.stopped);
    return text;
  }
  const bool nothing = history.steps == 0 && !history.checkpoint && config.train.init_from.kind != InitFrom::Kind::resume;
  if (history.stopped && nothing) {
    add("Stopped:     {}, before the first step: there is nothing to save. The same command begins anew\n", *history.stopped);
  } else if (history.stopped) {
    const bool sound = last.finite && (history.validation.y.empty() || std::isfinite(history.validation.y.back()));
    add("Stopped:     {}; {} saved. Go on with:\n             {}\n", *history.stopped,
        sound ? "everything is" : "what gave a finite loss and gradient is", going_on(folder, session));
  } else {
    std::vector<std::string> generate{"generate", folder.string()};
    if (config.sample.prompt != "\n") generate.insert(generate.end(), {"--prompt", config.sample.prompt});
    add("Try next:    {}\n", own_command(generate));
    add("             {}\n", own_command({"report", folder.string()}));
  }
  return text;
}

}  // namespace

void print_summary(const train::TrainingHistory& history, const io::Path& folder, const RunConfig& config, const Session& session,
                   std::FILE* out) {
  say(out, with_coloured_curves(visible(summary(history, folder, config, session), LineBreaks::kept), Paint(out)));
}

}  // namespace lockstep::app
