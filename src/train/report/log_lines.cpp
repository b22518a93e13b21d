#include "train/report/log_lines.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "base/units.h"

namespace lockstep::train {

std::string log_line(const Metrics& m) {
  std::string line = fmt::format(
      "step={} loss={:.6f} dt={:.6f} dtf={:.6f} dtb={:.6f} sps={:.6f} sps_per_gpu={:.6f} tps={:.6f} tps_per_gpu={:.6f} "
      "mfu={:.6f}",
      m.step, m.loss, m.dt, m.dtf, m.dtb, m.sps, m.sps_per_gpu, m.tps, m.tps_per_gpu, m.mfu);
  if (m.train_loss) line += fmt::format(" train_loss={:.6f}", *m.train_loss);
  if (m.val_loss) line += fmt::format(" val_loss={:.6f}", *m.val_loss);
  for (std::size_t i = 0; m.figures && i < m.figures->names.size(); ++i)
    line += fmt::format(" {}={:.6f}", m.figures->names[i], m.figures->values[i]);
  if (m.staleness) line += fmt::format(" staleness={:.3f} staleness_max={}", m.staleness->mean, m.staleness->greatest);
  if (m.late) line += fmt::format(" late_rank={} lost_seconds={:.6f}", m.late->rank, m.late->seconds);
  if (m.offload) {
    const auto bytes = [](std::int64_t count) { return static_cast<double>(count) / 1e9; };
    line += fmt::format(" offload_read_gb={:.3f} offload_written_gb={:.3f} offload_wait={:.6f}", bytes(m.offload->read),
                        bytes(m.offload->written), m.offload->waited);
  }
  return line;
}

std::string loss_in_words(const Metrics& m) { return has_loss(m) ? fmt::format("loss {:.4f}", m.loss) : "no targets"; }

std::string lost_in_words(const std::optional<LateRank>& late) {
  return late ? fmt::format(", {} of a step lost to rank {}", format_seconds(late->seconds), late->rank) : "";
}

std::string legend() {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 12> rows{{
      {"step", "Current training iteration"},
      {"loss", "Loss value"},
      {"dt", "Elapsed time per training step"},
      {"dtf", "Elapsed time per forward step"},
      {"dtb", "Elapsed time per backward step"},
      {"sps", "Samples per second"},
      {"sps_per_gpu", "Samples per second (per GPU)"},
      {"tps", "Tokens per second"},
      {"tps_per_gpu", "Tokens per second (per GPU)"},
      {"mfu", "Model flops utilization"},
      {"train_loss", "Training loss value"},
      {"val_loss", "Validation loss value"},
  }};
  std::string text = fmt::format("{:^48}\n", "Training Legend");
  text += "┏━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┓\n";
  text += fmt::format("┃ {:<11} ┃ {:<30} ┃\n", "abbr", "desc");
  text += "┡━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┩\n";
  for (const auto& [name, meaning] : rows) text += fmt::format("│ {:<11} │ {:<30} │\n", name, meaning);
  return text + "└─────────────┴────────────────────────────────┘";
}

void LogLines::step_done(const Metrics& m) {
  if (!m.finite) log_.warning(fmt::format("step {}: the gradient is not finite; the update was left out", m.step));
  if (m.targets == 0) log_.warning(fmt::format("step {}: the loss mask leaves no target; the update was left out", m.step));
}

void LogLines::rank_changed(const LateChange& who, const std::string& host, std::int64_t step) {
  if (!who.late) return log_.info(fmt::format("step {}: the other ranks wait no longer for rank {} on {}", step, who.rank, host));
  log_.warning(fmt::format(
      "step {}: the other ranks wait {} of each step for rank {} on {}, whose work takes {:.2f} times as long as {}; look there "
      "for other programs, heat, and slow memory or disks",
      step, format_seconds(who.seconds), who.rank, host, who.factor, who.by_peers ? "theirs" : "before"));
}

void LogLines::logged(const Metrics& m) { log_.info(log_line(m)); }

void LogLines::evaluated(const Losses& losses, double /*begun*/) {
  log_.info(fmt::format("step {}: train loss {:.4f}, val loss {:.4f}{}", losses.step, losses.train, losses.validation,
                        line_of(losses.figures)));
}

void LogLines::sampled(const std::optional<std::string>& text) {
  if (!text) return;
  log_.info(fmt::format("['prompt']: '{}'", prompt_));
  log_.info(fmt::format("['response']:\n\n{}", *text));
}

void LogLines::copied(const checkpoint::SaveReport& report, int hosts, std::int64_t step) {
  log_.info(fmt::format("Copied to memory{}: {} ({}, {}; whole at step {}, training waited {})",
                        hosts > 1 ? fmt::format(" of {} hosts, each part to two", hosts) : "", report.folder.string(),
                        format_bytes(report.bytes), format_seconds(report.durable_seconds), step,
                        format_seconds(report.waited_seconds)));
}

void LogLines::saved(const checkpoint::SaveReport& report, std::optional<std::int64_t> beside) {
  std::string after;
  if (beside) after = fmt::format("; durable at step {}, training waited {}", *beside, format_seconds(report.waited_seconds));
  log_.info(fmt::format("Saved checkpoint to: {} ({}, {}{})", report.folder.string(), format_bytes(report.bytes),
                        format_seconds(report.durable_seconds), after));
}

}  // namespace lockstep::train
