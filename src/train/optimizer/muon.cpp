#include <algorithm>
#include <cmath>
#include <optional>

#include "train/optimizer/adamw.h"
#include "train/optimizer/methods.h"

namespace lockstep::train {
namespace {

/// By which a step is as large as AdamW's, whose root of the mean square is some 0.2: "match RMS" of Liu et al. 2025 ("Muon is
/// scalable for LLM training", section 2.2), so that both take one learning rate.
float scale_of(const Tensor& matrix) { return 0.2F * std::sqrt(static_cast<float>(std::max(matrix.rows(), matrix.columns()))); }

class Muon final : public AdamW {
 public:
  explicit Muon(const OptimizerSettings& settings) : AdamW(settings) {}
  WholeTensorNeed whole_tensors() const override { return WholeTensorNeed::matrices; }
  void connect(const WholeTensorMemory& memory, comm::Communicator& group, std::size_t units) override {
    memory_ = &memory;
    exchange_.emplace(memory.matrices, group, units);
  }
  Json describe() const override {
    Json json = AdamW::describe();
    json.set("name", "muon");
    json.set("momentum", static_cast<double>(settings().momentum));
    return json;
  }

 private:
  void prepare(const Begun& begun) override {
    ensure(exchange_.has_value(), "owners of matrices are known before an update");
    const parallel::TrainingState::Use use{
        .gradients = true, .slots = true, .changes = true, .halves = true, .slots_alone = true};
    begun.state.for_each(use, [&](const parallel::StateRange& range) {
      for_pieces(range, begun.number, [&](const Part& part) {
        for_matrices(part, [&](const Part& run, const Tensor& direction) {
          begun.ops.update().direction({direction, run.of(range.gradient), run.of(range.slots[0])}, settings().momentum,
                                       begun.scalars, run.random);
        });
      });
    });
    exchange_->with_owners(begun.ops,
                           [&](const Tensor& matrix) { orthogonalise(begun.ops, memory_->products, matrix, scale_of(matrix)); });
  }

  void update_part(ops::Update& update, const Part& part, const ops::StepScalars& scalars) const override {
    bool hidden = false;
    for_matrices(part, [&](const Part& run, const Tensor& direction) {
      hidden = true;
      update.sgd({.weights = run.of(run.range.master),
                  .publish = run.of(run.range.published),
                  .gradient = direction,
                  .momentum_buffer = {},
                  .low = run.of(run.range.low)},
                 {.weight_decay = run.weight_decay, .clips = false}, scalars, run.random);
    });
    if (!hidden) AdamW::update_part(update, part, scalars);
  }

  /// body(run, its directions) for the runs of a part that lie in one matrix each; none of a part that is in no matrix.
  template <class Body>
  void for_matrices(const Part& part, const Body& body) const {
    const layout::Range elements{part.range.range.first + part.elements.first, part.elements.count};
    exchange_->for_parts(part.range.unit, elements, [&](const layout::Range& held, const Tensor& directions) {
      ops::RandomRounding random = part.random != nullptr ? *part.random : ops::RandomRounding{};
      random.skipped += held.first - elements.first;
      const layout::Range run{held.first - part.range.range.first, held.count};
      body(Part{part.range, run, part.weight_decay, part.random != nullptr ? &random : nullptr, part.parameter}, directions);
    });
  }

  const WholeTensorMemory* memory_ = nullptr;
  std::optional<parallel::MatrixExchange> exchange_;
};

}  // namespace

std::unique_ptr<Optimizer> make_muon(const OptimizerSettings& settings) { return std::make_unique<Muon>(settings); }

}  // namespace lockstep::train
