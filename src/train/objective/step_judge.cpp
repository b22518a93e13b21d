#include "train/objective/step_judge.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"

namespace lockstep::train {

void declare(Arena& arena, JudgeMemory& memory, std::int64_t samples, std::int64_t microbatches) {
  arena.declare(memory.losses, "losses of samples", Shape{microbatches * samples}, DType::f64);
  arena.declare(memory.factors, "factors of samples", Shape{microbatches * samples}, DType::f32);
}

StepJudge::StepJudge(std::unique_ptr<SampleLoss> loss, const JudgeMemory& memory, std::int64_t samples, std::int64_t positions,
                     std::int64_t microbatches, Stream& stream)
    : loss_(std::move(loss)),
      memory_(memory),
      samples_(samples),
      positions_(positions),
      stream_(stream),
      groups_(static_cast<std::size_t>(microbatches)),
      references_(static_cast<std::size_t>(microbatches * samples)),
      own_(static_cast<std::size_t>(loss_->together())),
      slopes_(own_.size()),
      figures_(loss_->figures().size()) {
  ensure(samples % loss_->together() == 0, "a micro-batch has whole groups of samples");
}

void StepJudge::begin(std::span<const data::Batch> batches, float scale) {
  ensure(batches.size() <= groups_.size(), "a step has the micro-batches it was declared for");
  microbatches_ = batches.size();
  scale_ = scale;
  for (std::size_t m = 0; m < batches.size(); ++m) {
    const std::span<double> to = std::span(references_).subspan(m * samples(), samples());
    const Tensor& given = batches[m].references;
    groups_[m] = given ? batches[m].target_count : 0;
    std::ranges::fill(to, 0.0);
    if (given) std::ranges::copy(elements<const double>(given), to.begin());
  }
  if (!memory_.losses.host) return;
  settle(stream_, memory_.losses);
  std::ranges::fill(elements<double>(memory_.losses.host), 0.0);
  upload(stream_, memory_.losses);
}

model::JudgedSamples StepJudge::of(int microbatch) {
  const std::int64_t first = microbatch * samples_;
  return {memory_.losses.device.flat(first, samples_), memory_.factors.device.flat(first, samples_), microbatch, this};
}

std::span<const double> StepJudge::losses(std::size_t microbatch) const {
  return elements<const double>(memory_.losses.host).subspan(microbatch * samples(), samples());
}

double StepJudge::judge(std::size_t microbatch, std::size_t first) {
  const std::span<const double> losses = this->losses(microbatch).subspan(first, own_.size());
  for (std::size_t i = 0; i < own_.size(); ++i) own_[i] = -losses[i];
  return loss_->judge(own_, std::span(references_).subspan(microbatch * samples() + first, own_.size()), slopes_, figures_);
}

// A token's loss is minus its log-probability.
void StepJudge::weigh(int microbatch) {
  const std::int64_t begin = microbatch * samples_;
  download(stream_, memory_.losses.flat(begin, samples_));
  const Mirror mine = memory_.factors.flat(begin, samples_);
  const std::span<float> factors = elements<float>(mine.host);
  const auto m = static_cast<std::size_t>(microbatch);
  for (std::size_t first = 0; first < samples(); first += own_.size()) {
    judge(m, first);
    const bool counts = std::cmp_less(first / own_.size(), groups_[m]);
    for (std::size_t i = 0; i < own_.size(); ++i)
      factors[first + i] = counts ? static_cast<float>(-slopes_[i] * static_cast<double>(scale_)) : 0.0F;
  }
  upload(stream_, mine);
}

StepJudge::Judged StepJudge::judged(const model::Sums& sums) {
  download(stream_, memory_.losses);
  const auto ranges = static_cast<std::size_t>(sums.sample_ranges()), all = microbatches_ * ranges;
  sums_.assign((1 + figures_.size()) * all, 0.0);
  const auto range_of = [&](std::size_t sample) {
    const std::int64_t row = static_cast<std::int64_t>(sample) * positions_;
    int range = 0;
    while (row >= sums.range_rows(range, samples_ * positions_).end()) ++range;
    return static_cast<std::size_t>(range);
  };
  for (std::size_t m = 0; m < microbatches_; ++m) {
    for (std::size_t first = 0; std::cmp_less(first / own_.size(), groups_[m]); first += own_.size()) {
      const std::size_t at = m * ranges + range_of(first);
      sums_[at] += judge(m, first);
      for (std::size_t i = 0; i < figures_.size(); ++i) sums_[(i + 1) * all + at] += figures_[i];
    }
  }
  Judged judged{.loss = sums.total(std::span(sums_).first(all)), .figures = {.names = loss_->figures()}};
  for (std::size_t i = 0; i < figures_.size(); ++i)
    judged.figures.values[i] = sums.total(std::span(sums_).subspan((i + 1) * all, all));
  return judged;
}

void StepJudge::log_probabilities(std::span<double> out) const {
  download(stream_, memory_.losses);
  std::ranges::transform(losses(0), out.begin(), std::negate());
}

}  // namespace lockstep::train
