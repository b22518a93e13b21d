#pragma once

// A DeepSpeed configuration (JSON, or YAML as WordPlay has it; https://www.deepspeed.ai/docs/config-json) in our settings.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/settings/run_config.h"
#include "base/error.h"
#include "base/json.h"

namespace lockstep::settings {

struct DeepSpeed {
  struct Assignment {
    std::string option;  ///< DeepSpeed's: "optimizer.params.lr"
    std::string key;     ///< ours: "optimizer.learning_rate"
    Json value;
  };
  /// How a number of samples was given.
  struct Count {
    std::optional<std::int64_t> value;
    bool open = true;  ///< neither a number nor "auto": it may follow from the others
  };
  std::vector<Assignment> assignments;
  /// What DeepSpeed or torch takes for options that a file leaves out of its optimizer and scheduler, and for ZeRO's stage.
  std::vector<Assignment> unsaid;
  /// The learning rate at the end of the schedule as a share of optimizer.learning_rate.
  std::optional<double> lowest_rate;
  /// Samples of a step over all ranks, samples of a micro-batch, and micro-batches of a step.
  Count train_batch, micro_batch, accumulation;
  std::vector<std::string> idle;   ///< options that are accepted, and have nothing to do here
  std::vector<std::string> notes;  ///< what else differs from DeepSpeed, a sentence each
  std::vector<Problem> problems;   ///< what we cannot do, by the option's name
};

/// `what`: the file's name; .yaml and .yml are YAML. Throws UserError for a text that has no options. "auto" leaves a setting as
/// it is.
DeepSpeed read_deepspeed(std::string_view text, const std::string& what);

/// What train.backend=deepspeed stands for without a file: bf16 with master weights (its ZeRO level is the backend's).
DeepSpeed deepspeed_defaults();

// What follows from a file and the settings together, once these have been applied over the file's.
/// The end of the learning rate's schedule.
void settle_schedule(app::RunConfig& config, const DeepSpeed& file);
/// Sets the factor of `train_batch_size = micro-batch x accumulation x replicas` that nothing gives. Returns what does not fit.
std::vector<Problem> settle_batch(app::RunConfig& config, const DeepSpeed& file, std::int64_t replicas);

/// A sentence with all of file.unsaid that counts in `config` and differs from our defaults; empty: there is none.
std::string taken_unsaid(const app::RunConfig& config, const DeepSpeed& file);
/// A sentence for each of the file's settings that another value in `config` stands above.
std::vector<std::string> overruled(const app::RunConfig& config, const DeepSpeed& file);

}  // namespace lockstep::settings
