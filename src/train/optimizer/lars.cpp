#include <optional>

#include "train/optimizer/methods.h"

namespace lockstep::train {
namespace {

class Lars final : public Optimizer {
 public:
  explicit Lars(const OptimizerSettings& settings) : Optimizer(settings) {
    if (settings.momentum != 0) slots_.emplace_back("momentum_buffer");
  }
  const std::vector<std::string>& slots() const override { return slots_; }
  WholeTensorNeed whole_tensors() const override { return WholeTensorNeed::norms; }
  void connect(const WholeTensorMemory& memory, comm::Communicator& group, std::size_t /*units*/) override {
    norms_.emplace(memory.norms, group);
  }
  Json describe() const override {
    Json json;
    json.set("name", "lars");
    json.set("momentum", static_cast<double>(settings().momentum));
    json.set("weight_decay", static_cast<double>(settings().weight_decay));
    return json;
  }

 private:
  void set_own(const ops::WrittenScalars& /*scalars*/, std::int64_t /*number*/) const override {}

  void prepare(const Begun& begun) override {
    ensure(norms_.has_value(), "norms of tensors are taken before an update");
    norms_->measure(begun.state, begun.ops);
    clip_ = begun.numbers.clip_factor;
  }

  /// The paper's coefficient is a factor of the learning rate here. A tensor that is zero has no size to go by.
  float trust(const Part& part) const {
    const auto [weights, gradient] = norms_->of(part.range.unit, part.parameter);
    if (weights == 0 || gradient == 0) return 1;
    return static_cast<float>(weights / (clip_ * gradient + static_cast<double>(part.weight_decay) * weights));
  }

  void update_part(ops::Update& update, const Part& part, const ops::StepScalars& scalars) const override {
    update.lars({.weights = part.of(part.range.master),
                 .publish = part.of(part.range.published),
                 .gradient = part.of(part.range.gradient),
                 .momentum_buffer = slots_.empty() ? Tensor{} : part.of(part.range.slots[0]),
                 .low = part.of(part.range.low)},
                {.momentum = settings().momentum, .weight_decay = part.weight_decay, .trust = trust(part)}, scalars, part.random);
  }

  std::vector<std::string> slots_;
  std::optional<parallel::TensorNorms> norms_;
  double clip_ = 1;
};

}  // namespace

std::unique_ptr<Optimizer> make_lars(const OptimizerSettings& settings) { return std::make_unique<Lars>(settings); }

}  // namespace lockstep::train
