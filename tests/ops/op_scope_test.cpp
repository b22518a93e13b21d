// What an observer is told of ops, by every backend.

#include "ops/op_scope.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "support/ops.h"

namespace lockstep::ops {
namespace {

using test::HostTensor;

/// Keeps what it is told: "begin linear.forward", "end linear.forward".
class Recorder final : public OpObserver {
 public:
  void begin(const OpCall& call) override {
    told.push_back("begin " + name_of(call));
    product = call;
    if (at_begin) at_begin();
  }
  void end(const OpCall& call) noexcept override {
    told.push_back("end " + name_of(call));
    if (at_end) at_end();
  }

  std::vector<std::string> told;
  OpCall product;
  std::function<void()> at_begin, at_end;

 private:
  static std::string name_of(const OpCall& call) { return std::string(call.family) + "." + std::string(call.name); }
};

class OpScopes : public testing::TestWithParam<bool> {
 protected:
  /// One call tells of `name`, once.
  void expect(const std::string& name, const std::function<void()>& call) {
    recorder_.told.clear();
    call();
    EXPECT_EQ(recorder_.told, (std::vector<std::string>{"begin " + name, "end " + name}));
  }

  Recorder recorder_;
  std::unique_ptr<Runtime> runtime_ = open_runtime({}, {.threads = 2});
  std::unique_ptr<Stream> stream_ = runtime_->make_stream();
  std::unique_ptr<Ops> ops_ =
      GetParam() ? make_reference_ops(&recorder_) : make_ops(*runtime_, *stream_, {.observer = &recorder_});
};
INSTANTIATE_TEST_SUITE_P(Backends, OpScopes, testing::Values(false, true),
                         [](const auto& backend) { return backend.param ? "Reference" : "Fast"; });

// 6 tokens, 8 features.
TEST_P(OpScopes, EveryOpTellsOfItself) {
  const HostTensor x = HostTensor::random({6, 8}, 1), dy = HostTensor::random({6, 8}, 2), w = HostTensor::random({8, 8}, 3);
  const HostTensor gain = HostTensor::random({8}, 4), y({6, 8}), dx({6, 8}), dw({8, 8}), d_gain({8}), stats({6, 2});
  std::vector<std::int32_t> ids{1, 0, 3, 2, 5, 4};
  const Tensor tokens = test::ids_tensor(ids);

  Linear& linear = ops_->linear();
  expect("linear.forward", [&] { linear.forward(y, x, w); });
  expect("linear.backward_input", [&] { linear.backward_input(dx, dy, w); });
  expect("linear.backward_weight", [&] { linear.backward_weight(dw, {}, dy, x, false); });
  HostTensor packed({8, 8});
  expect("linear.prepack", [&] { linear.prepack(w, packed); });

  for (Norm* norm : {&ops_->norm(NormForm::layer), &ops_->norm(NormForm::rms), &ops_->norm(NormForm::rms_unit_offset)}) {
    expect("norm.forward", [&] { norm->forward(y, stats, x, gain, {}, 1e-5F); });
    expect("norm.apply", [&] { norm->apply(y, stats, x, gain, {}); });
    expect("norm.backward", [&] { norm->backward({dx, {}, d_gain, {}, dy, x, stats, gain, {}, {}, false}); });
  }

  const AttentionShape shape{.samples = 2, .queries = 3, .keys = 3, .key_rows = 3, .heads = 2, .kv_heads = 2, .head_size = 4};
  const HostTensor lse({12}), delta({12}), dk({6, 8}), dv({6, 8});
  expect("attention.forward", [&] { ops_->attention().forward({y, lse, x, dy, x, shape}); });
  expect("attention.backward", [&] { ops_->attention().backward({dx, dk, dv, delta, dy, y, lse, x, dy, x, shape}); });

  const HostTensor angles = HostTensor::random({3, 4}, 5);
  expect("rotary.rotate", [&] { ops_->rotary().rotate(y, angles, {.positions = {0, 3}}); });
  expect("activation.forward", [&] { ops_->activation().forward(y, x, Activation::silu); });
  expect("activation.backward", [&] { ops_->activation().backward(dx, {}, dy, x, Activation::silu); });
  expect("dropout.forward", [&] { ops_->dropout().forward(y, x, {.p = 0.5F, .positions = {0, 3}}); });
  expect("dropout.backward", [&] { ops_->dropout().backward(dx, dy, {.p = 0.5F, .positions = {0, 3}}); });

  Embedding& embedding = ops_->embedding();
  expect("embedding.forward", [&] { embedding.forward(y, tokens, x, dy, {0, 3}); });
  expect("embedding.backward_tokens", [&] { embedding.backward_tokens(dx, dy, tokens); });
  expect("embedding.backward_positions", [&] { embedding.backward_positions(dx, dy, {0, 3}, false); });
  expect("embedding.add_rows", [&] { embedding.add_rows(dx, y, tokens); });
  expect("embedding.take_rows", [&] { embedding.take_rows(y, dx, tokens); });

  double loss = 0;
  expect("loss.forward", [&] { ops_->loss().forward(y, tokens, 8, {}, test::number_tensor(loss)); });

  Elementwise& elementwise = ops_->elementwise();
  expect("elementwise.zero", [&] { elementwise.zero(y); });
  expect("elementwise.fill", [&] { elementwise.fill(y, 1); });
  expect("elementwise.cast", [&] { elementwise.cast(y, x); });
  expect("elementwise.add", [&] { elementwise.add(y, x); });
  expect("elementwise.scale", [&] { elementwise.scale(y, 2); });
  expect("elementwise.normal", [&] { elementwise.normal(y, CounterRng(1, "test"), 0, 0, 1); });
  expect("elementwise.uniform", [&] { elementwise.uniform(y, CounterRng(1, "test"), 0, 0, 1); });

  expect("reduce.sum_of_squares", [&] { ops_->reduce().sum_of_squares(test::number_tensor(loss), x); });
  expect("reduce.max_abs", [&] { ops_->reduce().max_abs(test::number_tensor(loss), x); });

  const HostTensor scalars = HostTensor::filled({StepScalars::count}, 1);
  expect("update.adamw", [&] { ops_->update().adamw({dx, {}, dy, y, dw.tensor().flat(0, 48)}, {}, {scalars}); });
}

TEST_P(OpScopes, ProductsTellTheirShapes) {
  const HostTensor x({6, 8}), w({5, 8}), y({6, 5}), dx({6, 8}), dw({5, 8});
  const auto told = [&](LayerProduct product) {
    const OpCall& call = recorder_.product;
    EXPECT_EQ(call.product, product);
    EXPECT_EQ((std::vector{call.m, call.n, call.k}), (std::vector<std::int64_t>{6, 5, 8}));
  };
  ops_->linear().forward(y, x, w);
  told(LayerProduct::forward);
  ops_->linear().backward_input(dx, y, w);
  told(LayerProduct::input_gradient);
  ops_->linear().backward_weight(dw, {}, y, x, false);
  told(LayerProduct::weight_gradient);
  ops_->elementwise().zero(y);
  EXPECT_EQ(recorder_.product.product, LayerProduct::none);
}

// What the observer puts in place at the beginning the kernel reads, and what it sees at the end is the result.
TEST_P(OpScopes, MemoryIsTouchedInsideAlone) {
  HostTensor x({1, 8}), y({1, 8});
  std::vector<float> seen;
  recorder_.at_begin = [&] { x[3] = 2; };
  recorder_.at_end = [&] { seen = y.values(); };
  ops_->elementwise().add(y, x);
  EXPECT_EQ(seen, (std::vector<float>{0, 0, 0, 2, 0, 0, 0, 0}));
}

TEST_P(OpScopes, WhatIsRefusedHasNotBegun) {
  const HostTensor x({6, 8}), w({5, 7}), y({6, 5});
  EXPECT_THROW(ops_->linear().forward(y, x, w), BrokenRule);
  EXPECT_TRUE(recorder_.told.empty());
}

TEST_P(OpScopes, AnObserverThatRefusesKeepsTheKernelFromRunning) {
  const HostTensor x = HostTensor::filled({1, 8}, 1), y({1, 8});
  recorder_.at_begin = [] { throw BrokenRule("not now"); };
  EXPECT_THROW(ops_->elementwise().add(y, x), BrokenRule);
  EXPECT_EQ(y.values(), std::vector<float>(8));
  EXPECT_EQ(recorder_.told, std::vector<std::string>{"begin elementwise.add"});
}

// Its kernels have no room for wider heads.
TEST(OpScope, EndsWhenTheKernelThrows) {
  Recorder recorder;
  const auto runtime = open_runtime({}, {.threads = 1});
  const auto stream = runtime->make_stream();
  const auto ops = make_ops(*runtime, *stream, {.observer = &recorder});
  const HostTensor x({1, 257}), y({1, 257});
  const AttentionShape shape{.samples = 1, .queries = 1, .keys = 1, .key_rows = 1, .heads = 1, .kv_heads = 1, .head_size = 257};
  EXPECT_THROW(ops->attention().forward({y, {}, x, x, x, shape}), BrokenRule);
  EXPECT_EQ(recorder.told, (std::vector<std::string>{"begin attention.forward", "end attention.forward"}));
}

}  // namespace
}  // namespace lockstep::ops
