#pragma once

// Kernels that are called with other arguments than a layer gave, where a test says so.

#include <functional>
#include <memory>
#include <utility>

#include "ops/ops.h"

namespace lockstep::support {

/// What a test changes; empty: nothing.
struct OpsFault {
  std::function<void(ops::AttentionShape& shape, ops::DropoutSite& dropout)> attention = {};
  bool bias_twice = false;  ///< the bias is added twice to sums of tensor ranks
  // Samples are taken for one document each:
  bool masks_samples = false;         ///< where a query's keys begin
  bool positions_of_samples = false;  ///< where positions are counted from
};

class FaultyAttention final : public ops::Attention {
 public:
  FaultyAttention(ops::Attention& attention, const OpsFault& fault) : Attention(nullptr), attention_(attention), fault_(fault) {}

 private:
  template <class Call>
  Call changed(Call call) const {
    if (fault_.attention) fault_.attention(call.shape, call.dropout);
    if (fault_.masks_samples) call.starts = {};
    return call;
  }
  void do_forward(const ops::AttentionForward& call) override { attention_.forward(changed(call)); }
  void do_forward(const ops::CachedAttention& call) override { attention_.forward(call); }
  void do_backward(const ops::AttentionBackward& call) override { attention_.backward(changed(call)); }
  ops::Attention& attention_;
  const OpsFault& fault_;
};

class FaultyRotary final : public ops::Rotary {
 public:
  FaultyRotary(ops::Rotary& rotary, const OpsFault& fault) : Rotary(nullptr), rotary_(rotary), fault_(fault) {}

 private:
  void do_rotate(const Tensor& x, const Tensor& angles, const ops::RotaryPlace& place) override {
    ops::RotaryPlace taken = place;
    if (fault_.positions_of_samples) taken.starts = {};
    rotary_.rotate(x, angles, taken);
  }
  ops::Rotary& rotary_;
  const OpsFault& fault_;
};

class FaultyEmbedding final : public ops::Embedding {
 public:
  FaultyEmbedding(ops::Embedding& embedding, const OpsFault& fault) : Embedding(nullptr), embedding_(embedding), fault_(fault) {}

 private:
  Tensor taken(const Tensor& starts) const { return fault_.positions_of_samples ? Tensor{} : starts; }
  void do_forward(const Tensor& y, const Tensor& tokens, const Tensor& token_table, const Tensor& position_table,
                  const ops::Positions& positions, std::int64_t first_token, const Tensor& starts) override {
    embedding_.forward(y, tokens, token_table, position_table, positions, first_token, taken(starts));
  }
  void do_backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens, std::int64_t first_token) override {
    embedding_.backward_tokens(d_tokens, dy, tokens, first_token);
  }
  void do_backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens, std::int64_t first_token,
                          const ops::SumGrid& grid, const Tensor& workspace) override {
    embedding_.backward_tokens(d_tokens, dy, tokens, first_token, grid, workspace);
  }
  void do_backward_positions(const Tensor& d_table, const Tensor& dy, const ops::Positions& positions, bool accumulate,
                             const Tensor& starts) override {
    embedding_.backward_positions(d_table, dy, positions, accumulate, taken(starts));
  }
  void do_add_rows(const Tensor& sum, const Tensor& part, const Tensor& tokens) override {
    embedding_.add_rows(sum, part, tokens);
  }
  void do_take_rows(const Tensor& rows, const Tensor& part, const Tensor& tokens) override {
    embedding_.take_rows(rows, part, tokens);
  }
  ops::Embedding& embedding_;
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
  void do_split(const Tensor& high, const Tensor& low, const Tensor& x) override { elementwise_.split(high, low, x); }
  void do_join(const Tensor& x, const Tensor& high, const Tensor& low) override { elementwise_.join(x, high, low); }
  void do_add(const Tensor& y, const Tensor& x) override { elementwise_.add(y, x); }
  void do_scale(const Tensor& x, float factor) override { elementwise_.scale(x, factor); }
  void do_soft_cap(const Tensor& x, const Tensor& tanhs, float cap) override { elementwise_.soft_cap(x, tanhs, cap); }
  void do_soft_cap_backward(const Tensor& d, const Tensor& tanhs) override { elementwise_.soft_cap_backward(d, tanhs); }
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
  ops::Norm& norm(ops::NormForm form) override { return ops_->norm(form); }
  ops::Attention& attention() override { return attention_; }
  ops::Rotary& rotary() override { return rotary_; }
  ops::SplitNorm& split_norm() override { return ops_->split_norm(); }
  ops::Activations& activation() override { return ops_->activation(); }
  ops::Embedding& embedding() override { return embedding_; }
  ops::Dropout& dropout() override { return ops_->dropout(); }
  ops::Loss& loss() override { return ops_->loss(); }
  ops::Elementwise& elementwise() override { return elementwise_; }
  ops::Reduce& reduce() override { return ops_->reduce(); }
  ops::Update& update() override { return ops_->update(); }
  Stream& stream() override { return ops_->stream(); }
  std::int64_t workspace_bytes() const override { return ops_->workspace_bytes(); }
  void take_sum_grids() override { ops_->take_sum_grids(); }

 private:
  std::unique_ptr<ops::Ops> ops_;
  OpsFault fault_;
  FaultyAttention attention_{ops_->attention(), fault_};
  FaultyRotary rotary_{ops_->rotary(), fault_};
  FaultyEmbedding embedding_{ops_->embedding(), fault_};
  FaultySums elementwise_{ops_->elementwise(), fault_};
};

}  // namespace lockstep::support
