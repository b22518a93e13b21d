#pragma once

// Judges the samples of a step whole: keeps their log-probabilities, micro-batch by micro-batch, and adds up their losses and
// figures.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/batch.h"
#include "device/stream.h"
#include "model/head.h"
#include "model/sums.h"
#include "tensor/arena.h"
#include "tensor/mirror.h"
#include "train/objective/objective.h"

namespace lockstep::train {

/// Memory for each sample of a rank's step, where the head is.
struct JudgeMemory {
  Mirror losses;   ///< [micro-batches * B] f64: sums of token losses
  Mirror factors;  ///< [micro-batches * B] f32
};
void declare(Arena& arena, JudgeMemory& memory, std::int64_t samples, std::int64_t microbatches);

class StepJudge final : public model::SampleJudge {
 public:
  /// Micro-batches of `samples` samples of `positions` positions. `memory` may be empty on ranks without the head. `memory` and
  /// `stream` outlive the judge.
  StepJudge(std::unique_ptr<SampleLoss> loss, const JudgeMemory& memory, std::int64_t samples, std::int64_t positions,
            std::int64_t microbatches, Stream& stream);

  /// The step's micro-batches are `batches`. `scale`: one over the step's number of groups.
  void begin(std::span<const data::Batch> batches, float scale);
  model::JudgedSamples of(int microbatch) override;
  void weigh(int microbatch) override;

  /// Loss and figures of the micro-batches of begin(), added in the order in which `sums` adds losses.
  struct Judged {
    double loss = 0;
    SampleFigures figures;
  };
  Judged judged(const model::Sums& sums);
  /// The value of a rank that does not report its samples: zeros.
  Judged nothing() const { return {.loss = 0, .figures = {.names = loss_->figures()}}; }
  /// out [B] = the log-probabilities of the targets of micro-batch 0's samples.
  void log_probabilities(std::span<double> out) const;

 private:
  /// Judges the group of samples from the micro-batch's `first` on.
  double judge(std::size_t microbatch, std::size_t first);
  std::size_t samples() const { return static_cast<std::size_t>(samples_); }
  std::span<const double> losses(std::size_t microbatch) const;

  std::unique_ptr<SampleLoss> loss_;
  const JudgeMemory& memory_;
  std::int64_t samples_, positions_;
  Stream& stream_;
  float scale_ = 0;
  std::size_t microbatches_ = 0;      // of begin()
  std::vector<std::int64_t> groups_;  // by micro-batch
  std::vector<double> references_;    // [micro-batches * B]
  std::vector<double> own_, slopes_;  // of a group
  std::vector<double> figures_;       // of a group
  std::vector<double> sums_;          // [1 + figures][micro-batches * ranges of samples]
};

}  // namespace lockstep::train
