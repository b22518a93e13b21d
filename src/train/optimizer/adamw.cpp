#include "train/optimizer/adamw.h"

#include "base/math/elementary.h"
#include "train/optimizer/methods.h"

namespace lockstep::train {

Json AdamW::describe() const {
  Json json;
  json.set("name", "AdamW");
  json.set("beta1", static_cast<double>(settings().beta1));
  json.set("beta2", static_cast<double>(settings().beta2));
  json.set("eps", static_cast<double>(settings().eps));
  json.set("weight_decay", static_cast<double>(settings().weight_decay));
  return json;
}

void AdamW::set_own(const ops::WrittenScalars& scalars, std::int64_t number) const {
  const auto correction = [&](float beta) {
    return static_cast<float>(1.0 - power(static_cast<double>(beta), static_cast<double>(number)));
  };
  scalars[ops::StepScalars::bias_correction1] = correction(settings().beta1);
  scalars[ops::StepScalars::bias_correction2] = correction(settings().beta2);
}

void AdamW::update_part(ops::Update& update, const Part& part, const ops::StepScalars& scalars) const {
  const ops::AdamW rule{
      .beta1 = settings().beta1, .beta2 = settings().beta2, .eps = settings().eps, .weight_decay = part.weight_decay};
  update.adamw({.weights = part.of(part.range.master),
                .publish = part.of(part.range.published),
                .gradient = part.of(part.range.gradient),
                .exp_avg = part.of(part.range.slots[0]),
                .exp_avg_sq = part.of(part.range.slots[1]),
                .low = part.of(part.range.low)},
               rule, scalars, part.random);
}

std::unique_ptr<Optimizer> make_adamw(const OptimizerSettings& settings) { return std::make_unique<AdamW>(settings); }

}  // namespace lockstep::train
