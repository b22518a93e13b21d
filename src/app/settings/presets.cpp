#include "app/settings/presets.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/settings/foreign/other_words.h"
#include "app/settings/keys.h"
#include "app/settings/model_presets.h"

namespace lockstep::settings {
namespace {

using Assignments = std::vector<std::string>;

Assignments train(int eval_interval, int eval_iters, int warmup) {
  return {fmt::format("train.eval_interval={}", eval_interval),
          "train.log_interval=100",
          fmt::format("train.eval_iters={}", eval_iters),
          "train.eval_only=false",
          "train.always_save_checkpoint=false",
          "train.max_iters=10000",
          fmt::format("train.warmup_iters={}", warmup)};
}

Assignments data(std::string_view dataset, std::string_view out_dir) {
  return {fmt::format("data.dataset={}", dataset), fmt::format("data.out_dir={}", out_dir), "data.root_path=null"};
}

Assignments optimizer(std::string_view rate, std::string_view beta2, int decay_iters, std::string_view min_rate) {
  return {"optimizer.gas=1",
          fmt::format("optimizer.learning_rate={}", rate),
          "optimizer.weight_decay=0.1",
          "optimizer.beta1=0.9",
          fmt::format("optimizer.beta2={}", beta2),
          "optimizer.grad_clip=1.0",
          "optimizer.decay_lr=true",
          fmt::format("optimizer.lr_decay_iters={}", decay_iters),
          fmt::format("optimizer.min_lr={}", min_rate)};
}

Assignments rasbt_optimizer() {
  return {"optimizer.gas=1",          "optimizer.learning_rate=5e-4", "optimizer.weight_decay=0.1",
          "optimizer.beta1=0.9",      "optimizer.beta2=0.999",        "optimizer.grad_clip=0",
          "optimizer.decay_lr=false", "optimizer.min_lr=0",           "optimizer.decay=all"};
}

Assignments rasbt_train() {
  return {"train.seed=123",     "train.eval_interval=15", "train.log_interval=15",
          "train.eval_iters=1", "train.warmup_iters=0",   "train.max_epochs=15"};
}

std::vector<Preset> make_presets() {
  std::vector<Preset> all = {
      {"train", "shakespeare", train(250, 200, 100)},
      {"train", "owt", train(2000, 200, 2000)},
      {"train", "gpt2", train(2000, 100, 2000)},
      {"train", "gpt2_medium", train(2000, 100, 2000)},
      {"train", "gpt2_xl", train(2000, 200, 2000)},
      {"train", "rasbt", rasbt_train()},
      {"data", "shakespeare", data("shakespeare_char", "out-shakespeare-char")},
      {"data", "owt", data("openwebtext", "out-openwebtext")},
      {"data", "yelp", data("yelp_review_full", "out-yelp_review_full")},
      {"optimizer", "default", optimizer("6e-4", "0.95", 600000, "6e-5")},
      {"optimizer", "shakespeare", optimizer("1e-3", "0.99", 5000, "1e-4")},
      {"optimizer", "rasbt", rasbt_optimizer()},
  };
  for (Preset& preset : model_presets()) all.push_back(std::move(preset));
  const auto find = [&all](std::string_view group, std::string_view option) -> const Assignments& {
    return std::find_if(all.begin(), all.end(), [&](const Preset& p) { return p.group == group && p.option == option; })
        ->assignments;
  };
  const auto experiment = [&](std::string_view name, std::string_view t, std::string_view d, std::string_view m,
                              std::string_view o) {
    Preset bundle{"experiment", std::string(name), find("train", t)};
    for (const Assignments* part : {&find("data", d), &find("model", m), &find("optimizer", o)}) {
      bundle.assignments.insert(bundle.assignments.end(), part->begin(), part->end());
    }
    return bundle;
  };
  const std::vector<Preset> bundles = {experiment("shakespeare", "shakespeare", "shakespeare", "shakespeare", "shakespeare"),
                                       experiment("owt", "owt", "owt", "default", "default"),
                                       experiment("gpt2", "gpt2", "owt", "gpt2", "default"),
                                       experiment("gpt2_medium", "gpt2_medium", "owt", "gpt2_medium", "default"),
                                       experiment("gpt2_xl", "gpt2_xl", "owt", "gpt2_xl", "default"),
                                       experiment("rasbt", "rasbt", "shakespeare", "rasbt", "rasbt")};
  all.insert(all.end(), bundles.begin(), bundles.end());
  return all;
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = make_presets();
  return all;
}

const Preset* find_preset(std::string_view group, std::string_view option) {
  for (const Preset& preset : presets()) {
    if (preset.group == group && preset.option == option) return &preset;
  }
  return nullptr;
}

std::string options_of(std::string_view group) {
  std::string text;
  for (const Preset& preset : presets()) {
    if (preset.group == group) text += (text.empty() ? "" : ", ") + preset.option;
  }
  return text;
}

Problem unknown_preset(std::string_view group, std::string_view option) {
  const std::string options = options_of(group);
  if (options.empty()) {
    if (const auto right = app::right_setting(group, std::string(option)))
      return {fmt::format("unknown setting {}", group), "here it is " + *right};
    std::vector<std::string> names;
    for (const Preset& preset : presets()) names.push_back(preset.group);
    std::string near = nearest_name(group, names);
    if (near.empty()) near = nearest_key(group);  // a setting without its group
    return {fmt::format("unknown group {}", group), near.empty() ? "bundles are train=, data=, model=, optimizer= and experiment="
                                                                 : fmt::format("did you mean {}={}?", near, option)};
  }
  return {option.empty() ? fmt::format("{} has no value", group) : fmt::format("{}={}: there is no such option", group, option),
          "choose one of " + options};
}

}  // namespace lockstep::settings
