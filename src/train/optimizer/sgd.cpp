#include "train/optimizer/methods.h"

namespace lockstep::train {
namespace {

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const OptimizerSettings& settings) : Optimizer(settings) {
    if (settings.momentum != 0) slots_.emplace_back("momentum_buffer");
  }
  const std::vector<std::string>& slots() const override { return slots_; }
  Json describe() const override {
    Json json;
    json.set("name", "sgd");
    json.set("momentum", static_cast<double>(settings().momentum));
    json.set("weight_decay", static_cast<double>(settings().weight_decay));
    return json;
  }

 private:
  void set_own(const ops::WrittenScalars& /*scalars*/, std::int64_t /*number*/) const override {}
  void update_part(ops::Update& update, const Part& part, const ops::StepScalars& scalars) const override {
    const Tensor buffer = slots_.empty() ? Tensor{} : part.of(part.range.slots[0]);
    update.sgd({.weights = part.of(part.range.master),
                .publish = part.of(part.range.published),
                .gradient = part.of(part.range.gradient),
                .momentum_buffer = buffer,
                .low = part.of(part.range.low)},
               {.momentum = settings().momentum, .weight_decay = part.weight_decay}, scalars, part.random);
  }

  std::vector<std::string> slots_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerSettings& settings) { return std::make_unique<Sgd>(settings); }

}  // namespace lockstep::train
