#pragma once

// The table of DeepSpeed's options: what each is here.

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"

namespace lockstep::settings {

struct Option {
  enum class Kind {
    sets,       ///< its value is that of `key`
    elements,   ///< it counts fp32 elements of what `key` counts in bytes
    enables,    ///< true: `key` becomes `value`
    only,       ///< accepted with the values that `allows` takes; the reason and a remedy for others
    idle,       ///< accepted: there is nothing to do for it here
    elsewhere,  ///< read together with others
  };
  std::string_view name;  ///< "zero_optimization.stage"
  Kind kind;
  std::string_view key = "", value = "";
  bool (*allows)(const Json& value) = nullptr;
  std::string_view reason = "", remedy = "";
};

/// The factors of a step: train_batch_size = micro-batch x accumulation x replicas.
inline constexpr std::string_view samples_of_step = "train_batch_size", samples_of_microbatch = "train_micro_batch_size_per_gpu",
                                  microbatches_of_step = "gradient_accumulation_steps";

std::span<const Option> options();
/// The value of "group.option" in a file; null: it is not there.
const Json* find_value(const Json& file, std::string_view option);
/// Null when DeepSpeed has no such option, or none that is known here.
const Option* find_option(std::string_view name);
/// Whether `group` is the first part of options' names.
bool has_options(std::string_view group);
/// The option "group.enabled" where it is all that is known of the group; null for another group.
const Option* only_switch(const std::string& group);
/// A remedy that names the option that was perhaps meant, or where all of them are listed.
std::string nearest_option(std::string_view name);

}  // namespace lockstep::settings
