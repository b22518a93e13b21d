#pragma once

// Kernels that are called with something else than a layer asked for, where a test says so.

#include <functional>
#include <memory>
#include <utility>

#include "ops/ops.h"

namespace lockstep::support {

/// What a test changes; empty: nothing.
struct OpsFault {
  std::function<void(ops::AttentionShape& shape, ops::DropoutSite& dropout)> attention = {};
  bool bias_twice = false;  ///< of sums of tensor ranks
};

class FaultyAttention final : public ops::Attention {
 public:
  FaultyAttention(ops::Attention& attention, const OpsFault& fault) : Attention(nullptr), attention_(attention), fault_(fault) {}

 private:
  template <class Call>
  Call changed(Call call) const {
    if (fault_.attention) fault_.attention(call.shape, call.dropout);
    return call;
  }
  void do_forward(const ops::AttentionForward& call) override { attention_.forward(changed(call)); }
  void do_backward(const ops::AttentionBackward& call) override { attention_.backward(changed(call)); }
  ops::Attention& attention_;
  const OpsFault& fault_;
};

class FaultySums final : public ops::Elementwise {
 public:
  FaultySums(ops::Elementwise& elementwise, const OpsFault& fault)
      : Elementwise(nullptr), elementwise_(elementwise), fault_(fault) {}

 private:
  void do_finish_sums(const Tensor& y, const Tensor& sums, const Tensor& bias, const Tensor& residual) override {
    elementwise_.finish_sums(y, sums, bias, residual);
    if (fault_.bias_twice && bias) elementwise_.finish_sums(y, y, bias, {});
  }
  void do_zero(const Tensor& x) override { elementwise_.zero(x); }
  void do_fill(const Tensor& x, float value) override { elementwise_.fill(x, value); }
  void do_cast(const Tensor& y, const Tensor& x) override { elementwise_.cast(y, x); }
  void do_add(const Tensor& y, const Tensor& x) override { elementwise_.add(y, x); }
  void do_scale(const Tensor& x, float factor) override { elementwise_.scale(x, factor); }
  void do_normal(const Tensor& x, const CounterRng& rng, std::int64_t first, float mean, float std) override {
    elementwise_.normal(x, rng, first, mean, std);
  }
  void do_uniform(const Tensor& x, const CounterRng& rng, std::int64_t first, float low, float high) override {
    elementwise_.uniform(x, rng, first, low, high);
  }
  ops::Elementwise& elementwise_;
  const OpsFault& fault_;
};

class FaultyOps final : public ops::Ops {
 public:
  FaultyOps(std::unique_ptr<ops::Ops> usual, OpsFault fault) : ops_(std::move(usual)), fault_(std::move(fault)) {}
  ops::Linear& linear() override { return ops_->linear(); }
  ops::Norm& norm() override { return ops_->norm(); }
  ops::Norm& rms_norm() override { return ops_->rms_norm(); }
  ops::Attention& attention() override { return attention_; }
  ops::Rotary& rotary() override { return ops_->rotary(); }
  ops::Activations& activation() override { return ops_->activation(); }
  ops::Embedding& embedding() override { return ops_->embedding(); }
  ops::Dropout& dropout() override { return ops_->dropout(); }
  ops::Loss& loss() override { return ops_->loss(); }
  ops::Elementwise& elementwise() override { return elementwise_; }
  ops::Reduce& reduce() override { return ops_->reduce(); }
  ops::Update& update() override { return ops_->update(); }
  Stream& stream() override { return ops_->stream(); }
  std::int64_t workspace_bytes() const override { return ops_->workspace_bytes(); }

 private:
  std::unique_ptr<ops::Ops> ops_;
  OpsFault fault_;
  FaultyAttention attention_{ops_->attention(), fault_};
  FaultySums elementwise_{ops_->elementwise(), fault_};
};

}  // namespace lockstep::support
