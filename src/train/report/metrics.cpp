#include "train/report/metrics.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

namespace lockstep::train {

std::string log_line(const Metrics& m) {
  std::string line = fmt::format(
      "step={} loss={:.6f} dt={:.6f} dtf={:.6f} dtb={:.6f} sps={:.6f} sps_per_gpu={:.6f} tps={:.6f} tps_per_gpu={:.6f} "
      "mfu={:.6f}",
      m.step, m.loss, m.dt, m.dtf, m.dtb, m.sps, m.sps_per_gpu, m.tps, m.tps_per_gpu, m.mfu);
  if (m.train_loss) line += fmt::format(" train_loss={:.6f}", *m.train_loss);
  if (m.val_loss) line += fmt::format(" val_loss={:.6f}", *m.val_loss);
  if (m.staleness) line += fmt::format(" staleness={:.3f} staleness_max={}", m.staleness->mean, m.staleness->greatest);
  if (m.offload) {
    const auto bytes = [](std::int64_t count) { return static_cast<double>(count) / 1e9; };
    line += fmt::format(" offload_read_gb={:.3f} offload_written_gb={:.3f} offload_wait={:.6f}", bytes(m.offload->read),
                        bytes(m.offload->written), m.offload->waited);
  }
  return line;
}

Json to_json(const Metrics& m) {
  Json json;
  json.set("step", m.step);
  json.set("loss", m.loss);
  json.set("dt", m.dt);
  json.set("dtf", m.dtf);
  json.set("dtb", m.dtb);
  json.set("sps", m.sps);
  json.set("sps_per_gpu", m.sps_per_gpu);
  json.set("tps", m.tps);
  json.set("tps_per_gpu", m.tps_per_gpu);
  json.set("mfu", m.mfu);
  json.set("lr", m.learning_rate);
  json.set("grad_norm", m.gradient_norm);
  json.set("update_seconds", m.update_seconds);
  json.set("data_wait", m.data_wait);
  json.set("exposed_seconds", m.exposed_seconds);
  Json waited;
  for (std::size_t kind = 0; kind < m.waited.size(); ++kind) {
    if (m.waited[kind] > 0) waited.set(std::string(comm::name_of(static_cast<comm::Collective>(kind))), m.waited[kind]);
  }
  if (waited.is_object()) json.set("waited", waited);
  if (m.pipeline) json.set("pipeline", Json::Object{{"seconds", m.pipeline->all}, {"waiting", m.pipeline->waiting}});
  json.set("finite", m.finite);
  if (m.staleness) {
    Json staleness;
    staleness.set("updates", m.staleness->updates);
    staleness.set("mean", m.staleness->mean);
    staleness.set("max", m.staleness->greatest);
    json.set("staleness", staleness);
  }
  if (m.offload) {
    Json offload;
    offload.set("read_bytes", m.offload->read);
    offload.set("written_bytes", m.offload->written);
    offload.set("wait_seconds", m.offload->waited);
    json.set("offload", offload);
  }
  if (!m.ranks.empty()) {
    Json ranks;
    for (const auto& [name, spread] : m.ranks) {
      Json entry;
      entry.set("mean", spread.mean);
      entry.set("min", spread.least);
      entry.set("max", spread.greatest);
      entry.set("std", spread.deviation);
      ranks.set(name, entry);
    }
    json.set("ranks", ranks);
  }
  return json;
}

Json to_json(const Losses& losses) {
  return Json::Object{{"eval", true}, {"step", losses.step}, {"train_loss", losses.train}, {"val_loss", losses.validation}};
}

std::vector<Scalar> scalars_of(const Metrics& m) {
  std::vector<Scalar> scalars{{"loss/train", m.loss},
                              {"optimizer/lr", m.learning_rate},
                              {"optimizer/grad_norm", m.gradient_norm},
                              {"speed/tokens_per_second", m.tps},
                              {"speed/mfu", m.mfu},
                              {"speed/dt", m.dt},
                              {"speed/data_wait", m.data_wait},
                              {"speed/exposed_seconds", m.exposed_seconds}};
  if (m.staleness) scalars.push_back({"optimizer/staleness", m.staleness->mean});
  return scalars;
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

double RunningMfu::update(double dt) {
  const double now = 100.0 * flops_ / dt / peak_;
  value_ = value_ ? 0.9 * *value_ + 0.1 * now : now;
  return *value_;
}

}  // namespace lockstep::train
