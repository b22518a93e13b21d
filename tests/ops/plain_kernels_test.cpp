// Kernels that have a plain way beside the usual one: the same bits, on every instruction set and on any number of threads.

#include <gtest/gtest.h>

#include "ops/cpu/library/library.h"
#include "support/ops.h"

namespace lockstep::test {
namespace {

using ops::Activation;
using ops::Bf16Order;
using ops::PlainKernels;

struct PlainMachine {
  PlainMachine(const PlainKernels& plain, ops::Isa isa, int threads)
      : runtime(open_runtime(Device{}, {threads})),
        stream(runtime->make_stream()),
        ops(ops::make_ops(*runtime, *stream, {.cpu = {.isa = isa, .bf16 = Bf16Order::widened, .plain = plain}})) {}
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<ops::Ops> ops;
};

/// What `run` makes with plain kernels has the bits of what the usual ones make.
void expect_same_bits(const PlainKernels& plain, const std::function<Results(ops::Ops&)>& run) {
  for (const ops::Isa isa : ops::available_isas()) {
    const Results expected = run(*PlainMachine({}, isa, 1).ops);
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(std::string(ops::name_of(isa)) + ", " + std::to_string(threads) + " threads");
      const Results results = run(*PlainMachine(plain, isa, threads).ops);
      ASSERT_EQ(results.size(), expected.size());
      for (std::size_t i = 0; i < results.size(); ++i)
        EXPECT_EQ(different_bits(results[i].values(), expected[i].values()), 0U) << "result " << i;
    }
  }
}

struct Sizes {
  std::int64_t rows, in, out;
};

// All that a layer does with its products.
Results linear(ops::Ops& ops, const Sizes& sizes, DType type) {
  const auto [rows, in, out] = sizes;
  const auto random = [&](Shape shape, std::uint32_t seed) { return HostTensor::random(shape, seed, 2).as(type); };
  const HostTensor x = random({rows, in}, 1), w = random({out, in}, 2), bias = random({out}, 3), gate = random({rows, out}, 4),
                   dy = random({rows, out}, 5), up = random({rows, in}, 6);
  HostTensor y = random({rows, out}, 7), pre = y, plain = y, gated = y, dx = up, d_plain = up, activated = up, d_gate = up;
  HostTensor sums = HostTensor::random({rows, out}, 10), gone_on = y, logits({rows, out}), more = sums;
  HostTensor dw = HostTensor::random({out, in}, 8), db = HostTensor::random({out}, 9), fresh = dw;
  ops.linear().forward(y, x, w, {bias, pre, Activation::gelu, y});
  ops.linear().forward(gated, x, w, {.activation = Activation::silu, .gate = gate});
  ops.linear().forward(plain, x, w);
  ops.linear().forward(logits, x, w);
  ops.linear().forward(gone_on, x, w, {.bias = bias, .sums = sums});
  ops.linear().forward(more, x, w, {.sums = more});
  ops.linear().backward_input(dx, dy, w, {.pre_activation = up, .activation = Activation::gelu_tanh, .activated = activated});
  ops.linear().backward_input(d_plain, dy, w);
  HostTensor d_up = up;
  ops.linear().backward_input(d_up, dy, w, {.pre_activation = up, .activation = Activation::silu, .gate = x, .d_gate = d_gate});
  ops.linear().backward_weight(dw, db, dy, x, true);
  ops.linear().backward_weight(fresh, {}, dy, x, false);
  return {y, pre, gated, plain, logits, gone_on, more, dx, activated, d_plain, d_up, d_gate, dw, db, fresh};
}

class PlainProducts : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, PlainProducts, storage_types);

TEST_P(PlainProducts, HaveTheBitsOfTheBest) {
  for (const Sizes& sizes : {Sizes{1, 300, 67}, Sizes{40, 30, 1}, Sizes{300, 257, 130}, Sizes{65, 7, 64}})
    expect_same_bits({.products = true}, [&](ops::Ops& ops) { return linear(ops, sizes, GetParam()); });
}

TEST_P(PlainProducts, EpiloguesBehindThemChangeNoBit) {
  // Sums of all rows of the last do not fit where they wait.
  for (const Sizes& sizes : {Sizes{1, 300, 67}, Sizes{40, 30, 1}, Sizes{300, 257, 130}, Sizes{2500, 3, 600}}) {
    expect_same_bits({.epilogues = true}, [&](ops::Ops& ops) { return linear(ops, sizes, GetParam()); });
    expect_same_bits({.products = true, .epilogues = true}, [&](ops::Ops& ops) { return linear(ops, sizes, GetParam()); });
  }
}

TEST(PlainProducts, PackNothing) {
  const PlainMachine machine({.products = true}, ops::Isa::automatic, 2);
  const HostTensor x = HostTensor::random({1, 64}, 1), w = HostTensor::random({96, 64}, 2);
  HostTensor packed({96, 64});
  EXPECT_EQ(machine.ops->linear().prepack(w, packed).order, Order::rows);
}

TEST(PlainProducts, AreNoLibrarys) {
  const auto runtime = open_runtime(Device{}, {1});
  const auto stream = runtime->make_stream();
  if (!ops::cpu::has_library()) GTEST_SKIP() << "oneDNN is not here";
  EXPECT_THROW(ops::make_ops(*runtime, *stream, {.cpu = {.products = ops::Products::library, .plain = {.products = true}}}),
               BrokenRule);
}

class PlainNorm : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, PlainNorm, storage_types);

// Rows so many that passes take them in turns, and so few that they are part of a block.
TEST_P(PlainNorm, HasTheBitsOfTheFused) {
  for (const auto& [rows, columns] : {std::pair{1, 17}, std::pair{130, 65}, std::pair{64, 384}, std::pair{70, 30000}}) {
    const auto random = [&](Shape shape, std::uint32_t seed) { return HostTensor::random(shape, seed, 3).as(GetParam()); };
    const HostTensor x = random({rows, columns}, 1), gain = random({columns}, 2), bias = random({columns}, 3),
                     dn = random({rows, columns}, 4), residual = random({rows, columns}, 5);
    for (const ops::NormForm form : {ops::NormForm::layer, ops::NormForm::rms, ops::NormForm::rms_unit_offset}) {
      expect_same_bits({.norm = true}, [&](ops::Ops& ops) {
        ops::Norm& norm = ops.norm(form);
        HostTensor n = x, added = residual, again = x, once_more = x, stats({rows, 2}), dx = dn, own = x;
        HostTensor d_gain = HostTensor::random({columns}, 6), d_bias = HostTensor::random({columns}, 7), fresh = d_gain;
        norm.forward(n, stats, x, gain, bias, 1e-5F);
        norm.forward(added, stats, x, gain, {}, 1e-5F, added);
        norm.apply(again, stats, x, gain, {});
        norm.backward({dx, once_more, d_gain, d_bias, dx, x, stats, gain, bias, residual, true});
        norm.backward({own, {}, fresh, {}, dn, x, stats, gain, {}, {}, false});
        return Results{n, added, stats, again, once_more, dx, d_gain, d_bias, own, fresh};
      });
    }
  }
}

// More elements than passes take at a time; and copies for the model in both types.
TEST(PlainAdamW, HasTheBitsOfTheFused) {
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{1000}, (std::int64_t{1} << 21) + 77}) {
    for (const DType type : {DType::f32, DType::bf16}) {
      expect_same_bits({.adamw = true}, [&](ops::Ops& ops) {
        HostTensor w = HostTensor::random({count}, 1), m = HostTensor::random({count}, 2), v = HostTensor::filled({count}, 0.25F);
        HostTensor published({count}, type), scalars = HostTensor::filled({ops::StepScalars::count}, 1);
        scalars[ops::StepScalars::learning_rate] = 0.01F;
        scalars[ops::StepScalars::clip_factor] = 0.7F;
        scalars[ops::StepScalars::bias_correction1] = 0.19F;
        scalars[ops::StepScalars::bias_correction2] = 0.0975F;
        ops.update().adamw({w, published, HostTensor::random({count}, 3), m, v}, {}, {scalars});
        return Results{w, m, v, published};
      });
    }
  }
}

TEST(PlainAdamW, OfMastersInHalvesHasTheBitsOfTheFused) {
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{1000}, (std::int64_t{1} << 21) + 77}) {
    expect_same_bits({.adamw = true}, [&](ops::Ops& ops) {
      HostTensor w = HostTensor::random({count}, 1), m = HostTensor::random({count}, 2), v = HostTensor::filled({count}, 0.25F);
      HostTensor high({count}, DType::bf16), scalars = HostTensor::filled({ops::StepScalars::count}, 1);
      std::vector<std::uint16_t> bits(static_cast<std::size_t>(count));
      const Tensor low = view(std::span(bits), Shape{count});
      ops.elementwise().split(high, low, w);
      scalars[ops::StepScalars::learning_rate] = 0.01F;
      ops.update().adamw({{}, high, HostTensor::random({count}, 3), m, v, low}, {}, {scalars});
      ops.elementwise().join(w, high, low);
      return Results{w, m, v, high};
    });
  }
}

TEST(PlainAdamW, KeepsF32Alone) {
  const PlainMachine machine({.adamw = true}, ops::Isa::automatic, 1);
  HostTensor w = HostTensor::random({64}, 1), m({64}, DType::bf16), v({64}, DType::bf16);
  HostTensor scalars = HostTensor::filled({ops::StepScalars::count}, 1);
  EXPECT_THROW(machine.ops->update().adamw({w, {}, HostTensor::random({64}, 3), m, v}, {}, {scalars}), BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
