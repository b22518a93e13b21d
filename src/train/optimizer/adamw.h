#pragma once

#include "train/optimizer/optimizer.h"

namespace lockstep::train {

/// AdamW of Loshchilov & Hutter 2019. Muon uses its rule for all parameters that are no hidden matrix.
class AdamW : public Optimizer {
 public:
  explicit AdamW(const OptimizerSettings& settings) : Optimizer(settings) {}
  const std::vector<std::string>& slots() const override { return slots_; }
  Json describe() const override;

 protected:
  void update_part(ops::Update& update, const Part& part, const ops::StepScalars& scalars) const override;

 private:
  void set_own(const ops::WrittenScalars& scalars, std::int64_t number) const override;

  std::vector<std::string> slots_{"exp_avg", "exp_avg_sq"};
};

}  // namespace lockstep::train
