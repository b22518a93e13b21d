#include "app/settings/foreign/deepspeed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "app/settings/foreign/deepspeed_options.h"
#include "app/settings/foreign/yaml.h"
#include "app/settings/keys.h"
#include "base/number_text.h"
#include "base/text/lower.h"

namespace lockstep::settings {
namespace {

bool is_auto(const Json& value) { return value.is_string() && value.string() == "auto"; }

// DeepSpeed's files write whole numbers as 5e8 too.
Json whole(const Json& value) {
  if (!value.is_number() || value.is_int()) return value;
  const double x = value.number();
  return std::abs(x) < 1e15 && x == std::floor(x) ? Json(static_cast<std::int64_t>(x)) : value;
}

class Reader {
 public:
  explicit Reader(const std::string& what) : what_(what) {}

  DeepSpeed read(const Json& file) {
    if (!file.is_object())
      throw UserError(what_ + ": no object of options", "write DeepSpeed's options as {\"name\": value, ...}");
    read_group("", file);
    counts(file);
    optimizer(file);
    scheduler(file);
    unsaid(file, "zero_optimization.stage", "memory.zero", 0);  // runtime/zero/config.py
    return std::move(found_);
  }

 private:
  // Options of the table; a group that has rows below it is walked into.
  void read_group(const std::string& group, const Json& members) {
    for (const auto& [name, value] : members.object()) {
      const std::string option = group.empty() ? name : fmt::format("{}.{}", group, name);
      if (const Option* row = find_option(option)) {
        read_option(*row, option, value);
      } else if (!has_options(option)) {
        refuse(option, "is not known here", nearest_option(option));
      } else if (const Option* turned = only_switch(option); turned != nullptr && value.is_object()) {
        const Json* on = value.find("enabled");
        on != nullptr ? read_option(*turned, option + ".enabled", *on) : found_.idle.push_back(option);
      } else if (value.is_object()) {
        const Json* enabled = value.find("enabled");
        const bool off = enabled != nullptr && enabled->is_bool() && !enabled->boolean();
        if (!off) read_group(option, value);
      } else if (!is_auto(value) && !value.is_null()) {
        refuse(option, "is no group of options", "write it as {...}");
      }
    }
  }

  void read_option(const Option& row, const std::string& option, const Json& value) {
    if (is_auto(value)) return;
    switch (row.kind) {
      case Option::Kind::elsewhere:
        return;
      case Option::Kind::idle:
        return found_.idle.push_back(option);
      case Option::Kind::sets:
        if (!value.is_null()) assign(option, row.key, whole(value));
        return;
      case Option::Kind::elements:
        return elements(option, row.key, value);
      case Option::Kind::enables:
        if (value.is_bool() && value.boolean()) assign(option, row.key, value_from_text(*find_key(row.key), row.value));
        return;
      case Option::Kind::only:
        if (!row.allows(value)) refuse(option, fmt::format("= {}: {}", value.dump(), row.reason), std::string(row.remedy));
        return;
    }
  }

  // DeepSpeed counts elements, here of fp32; our key counts bytes.
  void elements(const std::string& option, std::string_view key, const Json& value) {
    const Json number = whole(value);
    const auto bytes = number.is_int() ? product_of({number.integer(), 4}) : std::nullopt;
    if (number.is_int() && !bytes) {
      refuse(option, fmt::format("= {}: the bytes of so many fp32 elements cannot be counted", value.dump()),
             "500000000 is DeepSpeed's own");
    } else {
      assign(option, key, bytes ? Json(*bytes) : value);
    }
  }

  void assign(const std::string& option, std::string_view key, Json value) {
    app::RunConfig trial;
    const Key* entry = find_key(key);
    ensure(entry != nullptr, "an option stands for one of our keys");
    if (auto problem = settings::assign(trial, *entry, value)) {
      refuse(option, fmt::format("stands for {}", problem->message), std::move(problem->remedy));
    } else {
      found_.assignments.push_back({option, std::string(key), std::move(value)});
    }
  }

  void refuse(const std::string& option, std::string_view why, std::string remedy) {
    found_.problems.push_back({fmt::format("{}: {} {}", what_, option, why), std::move(remedy)});
  }

  void counts(const Json& file) {
    count(file, samples_of_step, found_.train_batch);
    count(file, samples_of_microbatch, found_.micro_batch);
    count(file, microbatches_of_step, found_.accumulation);
  }

  void count(const Json& file, std::string_view name, DeepSpeed::Count& count) {
    const std::string option(name);
    read_count(file, option, count);
    if (const std::string_view key = find_option(name)->key; count.value && !key.empty()) assign(option, key, Json(*count.value));
  }

  void read_count(const Json& file, const std::string& option, DeepSpeed::Count& count) {
    const Json* value = file.find(option);
    if (value == nullptr || value->is_null()) return;
    count.open = false;
    if (is_auto(*value)) return;
    const Json number = whole(*value);
    if (number.is_int() && number.integer() > 0) {
      count.value = number.integer();
    } else {
      refuse(option, fmt::format("= {}: must be a number of samples or steps from 1 on", value->dump()), "or write \"auto\"");
    }
  }

  /// Unless the file has the option, if only as "auto".
  void unsaid(const Json& file, std::string_view option, std::string_view key, double value) {
    if (find_value(file, option) != nullptr) return;
    const bool counts = key == "train.warmup_iters" || key == "memory.zero";
    found_.unsaid.push_back({std::string(option), std::string(key), counts ? whole(Json(value)) : Json(value)});
  }

  void optimizer(const Json& file) {
    const Json* type = find_value(file, "optimizer.type");
    if (type == nullptr || !type->is_string()) return;
    // DeepSpeed writes its own optimizers in small letters (runtime/config.py); SGD is torch.optim's.
    const std::string& given = type->string();
    const std::string name = given == "SGD" ? "sgd" : lower(given);
    if (given != "SGD" && name != "adam" && name != "adamw") {
      const std::string what = fmt::format("= {}: there is no such method here", given);
      if (name == "muon")
        return refuse("optimizer.type", what + " with DeepSpeed's settings", "leave it out, and give optimizer.name=muon");
      return refuse("optimizer.type", what, "Adam, AdamW or SGD");
    }
    // Defaults of torch.optim's SGD and AdamW (2.x), and of DeepSpeed's FusedAdam and DeepSpeedCPUAdam (0.19).
    const Json* torch_adam = find_value(file, "optimizer.params.torch_adam");
    const bool of_torch = name != "sgd" && torch_adam != nullptr && torch_adam->is_bool() && torch_adam->boolean();
    unsaid(file, "optimizer.params.lr", "optimizer.learning_rate", 1e-3);
    unsaid(file, "optimizer.params.weight_decay", "optimizer.weight_decay", of_torch ? 0.01 : 0);
    if (file.find("scheduler") == nullptr) {
      found_.notes.push_back(fmt::format(
          "{}: no scheduler, so the learning rate follows train.warmup_iters and optimizer.schedule; DeepSpeed's stays "
          "as it is",
          what_));
    }
    if (name == "sgd") {
      unsaid(file, "optimizer.params.momentum", "optimizer.momentum", 0);
      return assign("optimizer.type", "optimizer.name", "sgd");
    }
    assign("optimizer.type", "optimizer.name", "AdamW");
    const Json* decay = find_value(file, "optimizer.params.weight_decay");
    const Json* decoupled = find_value(file, "optimizer.params.adam_w_mode");
    const bool decays = decay != nullptr && decay->is_number() && decay->number() > 0;
    if (decays && decoupled != nullptr && decoupled->is_bool() && !decoupled->boolean()) {
      refuse("optimizer.params.adam_w_mode", "= false: weight decay is never part of the gradient here",
             "leave it out, or \"weight_decay\": 0");
    }
    unsaid(file, "optimizer.params.betas", "optimizer.beta1", 0.9);
    unsaid(file, "optimizer.params.betas", "optimizer.beta2", 0.999);
    unsaid(file, "optimizer.params.eps", "optimizer.eps", 1e-8);
    betas(find_value(file, "optimizer.params.betas"));
  }

  void betas(const Json* betas) {
    if (betas == nullptr || is_auto(*betas)) return;
    if (!betas->is_array() || betas->array().size() != 2) {
      return refuse("optimizer.params.betas", fmt::format("= {}: must be two numbers", betas->dump()), "[0.9, 0.999]");
    }
    assign("optimizer.params.betas", "optimizer.beta1", betas->array()[0]);
    assign("optimizer.params.betas", "optimizer.beta2", betas->array()[1]);
  }

  void scheduler(const Json& file) {
    const Json* type = find_value(file, "scheduler.type");
    if (type == nullptr || !type->is_string()) return;
    const std::string& name = type->string();
    const bool cosine = name == "WarmupCosineLR";
    if (name == "WarmupLR") {
      found_.lowest_rate = 1;
    } else if (name == "WarmupDecayLR") {
      found_.lowest_rate = 0;
    } else if (cosine) {
      const Json* least = find_value(file, "scheduler.params.cos_min_ratio");
      found_.lowest_rate = least != nullptr && least->is_number() ? least->number() : 1e-4;
    } else {
      return refuse("scheduler.type", fmt::format("= {}: there is no such schedule here", name),
                    "WarmupLR, WarmupDecayLR or WarmupCosineLR");
    }
    assign("scheduler.type", "optimizer.schedule", cosine ? "cosine" : "linear");
    assign("scheduler.type", "optimizer.decay_lr", true);
    unsaid(file, "scheduler.params.warmup_num_steps", "train.warmup_iters", 1000);  // runtime/lr_schedules.py
    if (!cosine && find_value(file, "scheduler.params.warmup_type") == nullptr) {
      found_.notes.push_back(fmt::format(
          "{}: the learning rate rises in a straight line; without warmup_type DeepSpeed's follows a logarithm", what_));
    }
  }

  const std::string& what_;
  DeepSpeed found_;
};

}  // namespace

DeepSpeed read_deepspeed(std::string_view text, const std::string& what) {
  const bool yaml = what.ends_with(".yaml") || what.ends_with(".yml");
  return Reader(what).read(yaml ? json_from_yaml(text, what) : Json::parse(text, what));
}

DeepSpeed deepspeed_defaults() {
  DeepSpeed defaults;
  defaults.assignments.push_back({"bf16.enabled", "train.dtype", "bfloat16"});
  return defaults;
}

void settle_schedule(app::RunConfig& config, const DeepSpeed& file) {
  if (file.lowest_rate && config.optimizer.min_lr == app::RunConfig().optimizer.min_lr)
    config.optimizer.min_lr = *file.lowest_rate * config.optimizer.learning_rate;
}

std::vector<Problem> settle_batch(app::RunConfig& config, const DeepSpeed& file, std::int64_t replicas) {
  const app::RunConfig untouched;
  if (!file.train_batch.value) return {};
  const std::int64_t batch = *file.train_batch.value;
  std::int64_t &micro = config.model.batch_size, &steps = config.optimizer.gas;
  const bool micro_open = file.micro_batch.open && micro == untouched.model.batch_size;
  const bool steps_open = file.accumulation.open && steps == untouched.optimizer.gas;
  const auto unit = product_of({replicas, micro_open ? 1 : micro, steps_open ? 1 : steps});
  const bool fits = unit && (micro_open || steps_open ? batch % *unit == 0 : batch == *unit);
  if (!fits) {
    return {{fmt::format("{} = {} is not {}{} = {} rank{}{}{}", samples_of_step, batch,
                         micro_open || steps_open ? "a multiple of " : "",
                         unit ? fmt::format("{}", *unit) : "more than can be counted", replicas, replicas == 1 ? "" : "s",
                         micro_open ? "" : fmt::format(" x model.batch_size = {}", micro),
                         steps_open ? "" : fmt::format(" x optimizer.gas = {}", steps)),
             "\"train_batch_size\": \"auto\" takes what the other settings give"}};
  }
  if (!micro_open && !steps_open) return {};
  std::optional<Problem> refused =
      settings::assign(config, *find_key(micro_open ? "model.batch_size" : "optimizer.gas"), Json(batch / *unit));
  if (!refused) return {};
  return {{fmt::format("{} = {} makes {}", samples_of_step, batch, refused->message), "a smaller batch"}};
}

std::string taken_unsaid(const app::RunConfig& config, const DeepSpeed& file) {
  std::vector<std::string> taken;
  for (const DeepSpeed::Assignment& one : file.unsaid) {
    const Key& key = *find_key(one.key);
    app::RunConfig asked;
    settings::assign(asked, key, one.value);
    const std::string value = key.get(config).dump();
    if (value == key.get(asked).dump() && value != key.get(app::RunConfig()).dump())
      taken.push_back(fmt::format("{} = {} ({})", key.name, shown(key.get(config)), one.option));
  }
  return taken.empty() ? "" : fmt::format("what the file leaves out is as in DeepSpeed: {}", fmt::join(taken, ", "));
}

std::vector<std::string> overruled(const app::RunConfig& config, const DeepSpeed& file) {
  app::RunConfig asked;
  for (const DeepSpeed::Assignment& one : file.assignments) settings::assign(asked, *find_key(one.key), one.value);
  std::vector<std::string> lines;
  for (const DeepSpeed::Assignment& one : file.assignments) {
    const Key& key = *find_key(one.key);
    if (key.get(config).dump() != key.get(asked).dump())
      lines.push_back(fmt::format("{} = {} stands above DeepSpeed's {}", key.name, shown(key.get(config)), one.option));
  }
  return lines;
}

}  // namespace lockstep::settings
