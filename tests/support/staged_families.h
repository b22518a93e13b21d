#pragma once

// The families of support/staged_ops.h that are not about a layer, and all of them together.

#include <array>
#include <memory>
#include <utility>

#include "support/staged_ops.h"

namespace lockstep::support {

class StagedEmbedding final : public Staged<ops::Embedding> {
 public:
  StagedEmbedding(Staging& staging, ops::Embedding& inner) : Staged(staging, inner) {}

 private:
  void do_forward(const Tensor& y, const Tensor& tokens, const Tensor& token_table, const Tensor& position_table,
                  const ops::Positions& positions, std::int64_t first_token, const Tensor& starts) override {
    Tensor to = y, ids = tokens, table = token_table, places = position_table, begins = starts;
    run({&to, &ids, &table, &places, &begins}, [&] { inner().forward(to, ids, table, places, positions, first_token, begins); });
  }
  void do_backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens, std::int64_t first_token) override {
    Tensor to = d_tokens, d = dy, ids = tokens;
    run({&to, &d, &ids}, [&] { inner().backward_tokens(to, d, ids, first_token); });
  }
  void do_backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens, std::int64_t first_token,
                          const ops::SumGrid& grid, const Tensor& workspace) override {
    Tensor to = d_tokens, d = dy, ids = tokens, space = workspace;
    run({&to, &d, &ids, &space}, [&] { inner().backward_tokens(to, d, ids, first_token, grid, space); });
  }
  void do_backward_positions(const Tensor& d_table, const Tensor& dy, const ops::Positions& positions, bool accumulate,
                             const Tensor& starts) override {
    Tensor to = d_table, d = dy, begins = starts;
    run({&to, &d, &begins}, [&] { inner().backward_positions(to, d, positions, accumulate, begins); });
  }
  void do_add_rows(const Tensor& sum, const Tensor& part, const Tensor& tokens) override {
    Tensor to = sum, from = part, ids = tokens;
    run({&to, &from, &ids}, [&] { inner().add_rows(to, from, ids); });
  }
  void do_take_rows(const Tensor& rows, const Tensor& part, const Tensor& tokens) override {
    Tensor to = rows, from = part, ids = tokens;
    run({&to, &from, &ids}, [&] { inner().take_rows(to, from, ids); });
  }
};

class StagedLoss final : public Staged<ops::Loss> {
 public:
  StagedLoss(Staging& staging, ops::Loss& inner) : Staged(staging, inner) {}

 private:
  void do_forward(const Tensor& logits, const Tensor& targets, std::int64_t vocabulary, const Tensor& scale,
                  const Tensor& loss_sum) override {
    Tensor to = logits, ids = targets, by = scale, sum = loss_sum;
    run({&to, &ids, &by, &sum}, [&] { inner().forward(to, ids, vocabulary, by, sum); });
  }
  void do_summarise(const Tensor& summary, const Tensor& logits, const Tensor& targets, const ops::VocabularyPart& part,
                    bool keep_exponentials) override {
    Tensor to = summary, from = logits, ids = targets;
    run({&to, &from, &ids}, [&] { inner().summarise(to, from, ids, part, keep_exponentials); });
  }
  void do_finish(const Tensor& logits, const Tensor& targets, const ops::VocabularyPart& part, const Tensor& summaries,
                 const Tensor& scale, const Tensor& loss_sum) override {
    Tensor to = logits, ids = targets, all = summaries, by = scale, sum = loss_sum;
    run({&to, &ids, &all, &by, &sum}, [&] { inner().finish(to, ids, part, all, by, sum); });
  }
};

class StagedElementwise final : public Staged<ops::Elementwise> {
 public:
  StagedElementwise(Staging& staging, ops::Elementwise& inner) : Staged(staging, inner) {}

 private:
  void do_zero(const Tensor& x) override {
    Tensor to = x;
    run({&to}, [&] { inner().zero(to); });
  }
  void do_fill(const Tensor& x, float value) override {
    Tensor to = x;
    run({&to}, [&] { inner().fill(to, value); });
  }
  void do_cast(const Tensor& y, const Tensor& x) override {
    Tensor to = y, from = x;
    run({&to, &from}, [&] { inner().cast(to, from); });
  }
  void do_split(const Tensor& high, const Tensor& low, const Tensor& x) override {
    Tensor above = high, below = low, from = x;
    run({&above, &below, &from}, [&] { inner().split(above, below, from); });
  }
  void do_join(const Tensor& x, const Tensor& high, const Tensor& low) override {
    Tensor to = x, above = high, below = low;
    run({&to, &above, &below}, [&] { inner().join(to, above, below); });
  }
  void do_add(const Tensor& y, const Tensor& x) override {
    Tensor to = y, from = x;
    run({&to, &from}, [&] { inner().add(to, from); });
  }
  void do_finish_sums(const Tensor& y, const Tensor& sums, const Tensor& bias, const Tensor& residual) override {
    Tensor to = y, from = sums, b = bias, r = residual;
    run({&to, &from, &b, &r}, [&] { inner().finish_sums(to, from, b, r); });
  }
  void do_scale(const Tensor& x, float factor) override {
    Tensor to = x;
    run({&to}, [&] { inner().scale(to, factor); });
  }
  void do_soft_cap(const Tensor& x, const Tensor& tanhs, float cap) override {
    Tensor to = x, kept = tanhs;
    run({&to, &kept}, [&] { inner().soft_cap(to, kept, cap); });
  }
  void do_soft_cap_backward(const Tensor& d, const Tensor& tanhs) override {
    Tensor to = d, kept = tanhs;
    run({&to, &kept}, [&] { inner().soft_cap_backward(to, kept); });
  }
  void do_normal(const Tensor& x, const CounterRng& rng, std::int64_t first, float mean, float std) override {
    Tensor to = x;
    run({&to}, [&] { inner().normal(to, rng, first, mean, std); });
  }
  void do_uniform(const Tensor& x, const CounterRng& rng, std::int64_t first, float low, float high) override {
    Tensor to = x;
    run({&to}, [&] { inner().uniform(to, rng, first, low, high); });
  }
};

class StagedReduce final : public Staged<ops::Reduce> {
 public:
  StagedReduce(Staging& staging, ops::Reduce& inner) : Staged(staging, inner) {}

 private:
  void do_sum_of_squares(const Tensor& sum, const Tensor& x) override {
    Tensor to = sum, from = x;
    run({&to, &from}, [&] { inner().sum_of_squares(to, from); });
  }
  void do_exact_squares(const Tensor& digits, const Tensor& x) override {
    Tensor to = digits, from = x;
    run({&to, &from}, [&] { inner().exact_squares(to, from); });
  }
  void do_max_abs(const Tensor& largest, const Tensor& x) override {
    Tensor to = largest, from = x;
    run({&to, &from}, [&] { inner().max_abs(to, from); });
  }
};

class StagedUpdate final : public Staged<ops::Update> {
 public:
  StagedUpdate(Staging& staging, ops::Update& inner) : Staged(staging, inner) {}

 private:
  void do_adamw(const ops::AdamWTensors& tensors, const ops::AdamW& rule, const ops::StepScalars& scalars,
                const ops::RandomRounding* random) override {
    ops::AdamWTensors t = tensors;
    ops::StepScalars s = scalars;
    run({&t.weights, &t.publish, &t.gradient, &t.exp_avg, &t.exp_avg_sq, &t.low, &s.values},
        [&] { inner().adamw(t, rule, s, random); });
  }
  void do_sgd(const ops::SgdTensors& tensors, const ops::Sgd& rule, const ops::StepScalars& scalars,
              const ops::RandomRounding* random) override {
    with_momentum(tensors, scalars, [&](const auto& t, const auto& s) { inner().sgd(t, rule, s, random); });
  }
  void do_lars(const ops::SgdTensors& tensors, const ops::Lars& rule, const ops::StepScalars& scalars,
               const ops::RandomRounding* random) override {
    with_momentum(tensors, scalars, [&](const auto& t, const auto& s) { inner().lars(t, rule, s, random); });
  }
  void do_direction(const ops::DirectionTensors& tensors, float momentum, const ops::StepScalars& scalars,
                    const ops::RandomRounding* random) override {
    ops::DirectionTensors t = tensors;
    ops::StepScalars s = scalars;
    run({&t.direction, &t.gradient, &t.momentum_buffer, &s.values}, [&] { inner().direction(t, momentum, s, random); });
  }
  template <class Rule>
  void with_momentum(const ops::SgdTensors& tensors, const ops::StepScalars& scalars, const Rule& rule) {
    ops::SgdTensors t = tensors;
    ops::StepScalars s = scalars;
    run({&t.weights, &t.publish, &t.gradient, &t.momentum_buffer, &t.low, &s.values}, [&] { rule(t, s); });
  }
};

class StagedOps final : public ops::Ops {
 public:
  /// `runtime` outlives it; `kernels` are of one of its streams, which outlives it too.
  StagedOps(Runtime& runtime, std::unique_ptr<ops::Ops> kernels)
      : kernels_(std::move(kernels)), staging_(runtime, kernels_->stream()) {}

  ops::Linear& linear() override { return linear_; }
  ops::Norm& norm(ops::NormForm form) override { return norms_[static_cast<std::size_t>(form)]; }
  ops::SplitNorm& split_norm() override { return split_norm_; }
  ops::Attention& attention() override { return attention_; }
  ops::Rotary& rotary() override { return rotary_; }
  ops::Activations& activation() override { return activation_; }
  ops::Embedding& embedding() override { return embedding_; }
  ops::Dropout& dropout() override { return dropout_; }
  ops::Loss& loss() override { return loss_; }
  ops::Elementwise& elementwise() override { return elementwise_; }
  ops::Reduce& reduce() override { return reduce_; }
  ops::Update& update() override { return update_; }
  Stream& stream() override { return kernels_->stream(); }
  std::int64_t workspace_bytes() const override { return kernels_->workspace_bytes(); }
  void take_sum_grids() override { kernels_->take_sum_grids(); }

 private:
  std::unique_ptr<ops::Ops> kernels_;
  Staging staging_;
  StagedLinear linear_{staging_, kernels_->linear()};
  std::array<StagedNorm, 3> norms_ = {StagedNorm{staging_, kernels_->norm(ops::NormForm::layer)},
                                      StagedNorm{staging_, kernels_->norm(ops::NormForm::rms)},
                                      StagedNorm{staging_, kernels_->norm(ops::NormForm::rms_unit_offset)}};
  StagedSplitNorm split_norm_{staging_, kernels_->split_norm()};
  StagedAttention attention_{staging_, kernels_->attention()};
  StagedRotary rotary_{staging_, kernels_->rotary()};
  StagedActivations activation_{staging_, kernels_->activation()};
  StagedEmbedding embedding_{staging_, kernels_->embedding()};
  StagedDropout dropout_{staging_, kernels_->dropout()};
  StagedLoss loss_{staging_, kernels_->loss()};
  StagedElementwise elementwise_{staging_, kernels_->elementwise()};
  StagedReduce reduce_{staging_, kernels_->reduce()};
  StagedUpdate update_{staging_, kernels_->update()};
};

}  // namespace lockstep::support
