#pragma once

// metrics.jsonl in a run's folder: one JSON object a logged step, and one an evaluation. samples.jsonl: one a sampled text.

#include <cstdint>
#include <string>
#include <utility>

#include "base/json.h"
#include "io/appended_file.h"
#include "train/report/run_listener.h"

namespace lockstep::train {

/// A step's line, without its evaluation, which has a line of its own.
Json to_json(const Metrics& metrics);
Json to_json(const Losses& losses);

class MetricsFile final : public RunListener {
 public:
  /// `run`: its name, which each line has.
  MetricsFile(io::Path file, std::string run) : file_(std::move(file)), run_(std::move(run)) {}
  void logged(const Metrics& metrics) override { append(to_json(metrics)); }
  void kept(const Losses& losses) override { append(to_json(losses)); }

 private:
  void append(Json json) {
    json.set("run", run_);
    file_.append(json.dump() + "\n");
  }
  io::AppendedFile file_;
  std::string run_;
};

inline constexpr const char* samples_file = "samples.jsonl";

class SamplesFile final : public RunListener {
 public:
  /// `run`: its name, which each line has.
  SamplesFile(io::Path file, std::string run) : file_(std::move(file)), run_(std::move(run)) {}
  void started(const RunState& state) override;
  void step_done(const Metrics& metrics) override { step_ = metrics.step; }
  void sampled(const std::optional<std::string>& text) override;

 private:
  io::AppendedFile file_;
  std::string run_;
  std::int64_t step_ = 0;  ///< optimizer steps done
};

}  // namespace lockstep::train
