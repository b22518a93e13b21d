// Products that a library computes instead of ours.

#include "ops/cpu/library/library.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/ops.h"

namespace lockstep::test {
namespace {

using ops::Activation;
using ops::Products;

struct LibraryMachine {
  explicit LibraryMachine(int threads)
      : runtime(open_runtime(Device{}, {threads})),
        stream(runtime->make_stream()),
        ops(ops::make_ops(*runtime, *stream, {.cpu = {.products = Products::library}})) {}
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<ops::Ops> ops;
};

class LibraryProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (!ops::cpu::has_library()) GTEST_SKIP() << "oneDNN is not here";
  }
};

TEST(Library, WithoutItsPluginItIsRefused) {
  setenv("LOCKSTEP_PLUGINS", "/no/such/folder", 1);
  EXPECT_FALSE(ops::cpu::has_library());
  EXPECT_THROW(ops::library_for(DType::f32), UserError);
  EXPECT_THROW(LibraryMachine(1), UserError);
  unsetenv("LOCKSTEP_PLUGINS");
}

// Rows so many that the sums of a whole product would not fit where they wait for their epilogue; and one row, and one column.
TEST_F(LibraryProducts, EpiloguesAndGradientsAreTheReference) {
  const auto reference = ops::make_reference_ops();
  for (const auto& [rows, in, out] : {std::tuple{1, 300, 67}, std::tuple{40, 30, 1}, std::tuple{2500, 3, 600}}) {
    const HostTensor x = HostTensor::random({rows, in}, 1), w = HostTensor::random({out, in}, 2),
                     bias = HostTensor::random({out}, 3), gate = HostTensor::random({rows, out}, 4, 3),
                     dy = HostTensor::random({rows, out}, 5), up = HostTensor::random({rows, in}, 6, 3);
    const auto run = [&](ops::Ops& ops, bool accumulate) {
      HostTensor y = HostTensor::random({rows, out}, 7), pre = y, plain = y, gated = y, dx = up, d_plain = up, activated = up;
      HostTensor dw = HostTensor::random({out, in}, 8), db = HostTensor::random({out}, 9);
      ops.linear().forward(y, x, w, {bias, pre, Activation::gelu, y});
      ops.linear().forward(gated, x, w, {.activation = Activation::silu, .gate = gate});
      ops.linear().forward(plain, x, w);
      ops.linear().backward_input(dx, dy, w, {up, Activation::silu, activated});
      ops.linear().backward_input(d_plain, dy, w);
      ops.linear().backward_weight(dw, db, dy, x, accumulate);
      return Results{y, pre, gated, plain, dx, activated, d_plain, dw, db};
    };
    for (const int threads : {1, 2}) {
      LibraryMachine machine(threads);
      for (const bool accumulate : {false, true}) {
        const Results expected = run(*reference, accumulate), results = run(*machine.ops, accumulate);
        for (std::size_t i = 0; i < results.size(); ++i)
          EXPECT_LE(distance(results[i].values(), expected[i].values()), 1e-5) << "result " << i << " of " << rows << " rows";
      }
    }
  }
}

// Column slices, as halves of a matrix; none of the rows' ends may be touched.
TEST_F(LibraryProducts, RowsMayBeStrided) {
  const auto reference = ops::make_reference_ops();
  LibraryMachine machine(2);
  const HostTensor x = HostTensor::random({20, 50}, 1), w = HostTensor::random({30, 50}, 2);
  HostTensor y({20, 40}), expected = y;
  const auto run = [&](ops::Ops& ops, const HostTensor& to) {
    ops.linear().forward(to.tensor().slice_columns(3, 30), x.tensor().slice_columns(5, 40), w.tensor().slice_columns(9, 40));
  };
  run(*reference, expected);
  run(*machine.ops, y);
  EXPECT_LE(distance(y.values(), expected.values()), 1e-5);
}

// The bias gradient has our own order.
TEST_F(LibraryProducts, SumsOverTokensAreOurs) {
  const HostTensor x = HostTensor::random({700, 20}, 1), dy = HostTensor::random({700, 213}, 2),
                   start = HostTensor::random({213}, 3);
  HostTensor dw({213, 20}), db = start, expected = start;
  machines().front()->ops->linear().backward_weight(dw, expected, dy, x, true);
  LibraryMachine(3).ops->linear().backward_weight(dw, db, dy, x, true);
  EXPECT_EQ(different_bits(db.values(), expected.values()), 0U);
}

TEST_F(LibraryProducts, Bf16WhereTheLibraryHasItAndARefusalElsewhere) {
  LibraryMachine machine(2);
  const HostTensor x = HostTensor::random({20, 50}, 1).as(DType::bf16), w = HostTensor::random({30, 50}, 2).as(DType::bf16);
  HostTensor y({20, 30}), expected = y;
  if (ops::library_for(DType::bf16).empty()) {
    try {
      machine.ops->linear().forward(y, x, w);
      FAIL() << "it has no bf16 products";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("has no BF16 products on this processor"), std::string::npos) << error.what();
    }
  } else {
    machine.ops->linear().forward(y, x, w);
    ops::make_reference_ops()->linear().forward(expected, x, w);
    EXPECT_LE(distance(y.values(), expected.values()), 1e-5);
  }
  // No library multiplies f32 and bf16: those products are ours.
  HostTensor dx({20, 50}), dw({30, 50}), our_dw = dw;
  const HostTensor dy = HostTensor::random({20, 30}, 3);
  machine.ops->linear().backward_weight(dw, {}, dy, x, false);
  machines().front()->ops->linear().backward_weight(our_dw, {}, dy, x, false);
  EXPECT_EQ(different_bits(dw.values(), our_dw.values()), 0U);
}

}  // namespace
}  // namespace lockstep::test
