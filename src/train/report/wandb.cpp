#include "train/report/wandb.h"

#include <chrono>
#include <string>
#include <utility>

namespace lockstep::train {

WandbHistory::WandbHistory(const io::Path& folder, std::int64_t step, double startup_seconds, std::int64_t microbatches)
    : file_(folder / wandb_history_file), microbatches_(static_cast<double>(microbatches)) {
  append(Json::Object{{"Timing/startup_time", startup_seconds}}, step);
}

// As in WordPlay, Training/loss is divided by the micro-batches; Training/iter and Timing/iter count the steps done before.
void WandbHistory::logged(const Metrics& m) {
  Json row;
  row.set("Training/iter", m.step - 1);
  if (has_loss(m)) row.set("Training/loss", m.loss / microbatches_);
  row.set("Training/lr", m.learning_rate);
  if (has_loss(m)) row.set("Training/loss_tot", m.loss);
  row.set("Timing/iter", m.step - 1);
  const auto set_times = [&](const std::string& name, double mean) {
    row.set(name, mean);
    row.set(name + "_tot", mean * microbatches_);
    row.set(name + "_avg", mean);
  };
  set_times("Timing/dt", m.dtf + m.dtb);
  set_times("Timing/dtf", m.dtf);
  set_times("Timing/dtb", m.dtb);
  row.set("Timing/dt_iter", m.dt);
  row.set("Timing/tokens_per_sec", m.tps);
  row.set("Timing/samples_per_sec", m.sps);
  row.set("Timing/tokens_per_sec_per_gpu", m.tps_per_gpu);
  row.set("Timing/samples_per_sec_per_gpu", m.sps_per_gpu);
  if (has_loss(m)) row.set("Loss/lossf", m.loss);
  row.set("Loss/mfu", m.mfu);
  row.set("Loss/iter", m.step);
  row.set("Timing/hfu", m.hfu);
  if (const auto scale = m.noise ? m.noise->scale() : std::nullopt) row.set("Training/noise_scale", *scale);
  row.set("Timing/tflops_per_gpu", m.tflops_per_gpu);
  if (m.late) row.set("Timing/lost_seconds", m.late->seconds);
  for (const auto& [purpose, all] : sent_by_purpose(m.exchanged)) {
    row.set("Exchange/" + purpose + "_sent_bytes", all.sent);
    row.set("Exchange/" + purpose + "_waited", all.waited);
    row.set("Exchange/" + purpose + "_hidden", all.hidden);
  }
  append(std::move(row), m.step);
}

void WandbHistory::kept(const Losses& losses) {
  append(Json::Object{{"Loss/train", losses.train}, {"Loss/val", losses.validation}, {"Loss/iter", losses.step}}, losses.step);
}

void WandbHistory::append(Json row, std::int64_t step) {
  row.set("_step", step);
  row.set("_timestamp", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  file_.append(row.dump() + "\n");
}

}  // namespace lockstep::train
