#include "ops/cpu/product/product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "base/checked.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/options.h"
#include "tensor/bfloat16.h"

namespace lockstep::ops::cpu {
namespace {

struct Case {
  std::int64_t m, n, k;
  bool crowded = false;  ///< rows lie a multiple of 4 KiB apart
};

// A matrix with rows further apart than they are long.
struct Strided {
  std::int64_t rows, columns, stride;
  std::vector<float> values;

  Strided(std::int64_t r, std::int64_t c, std::int64_t gap, std::mt19937& random) : rows(r), columns(c), stride(c + gap) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    values.resize(static_cast<std::size_t>(rows * stride));
    for (float& value : values) value = uniform(random);
  }
  float at(std::int64_t row, std::int64_t column) const { return values[static_cast<std::size_t>(row * stride + column)]; }
  /// Rounds the elements to bf16 and returns them as such.
  std::vector<BFloat16> halved() {
    std::vector<BFloat16> halves(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      halves[i] = to_bfloat16(values[i]);
      values[i] = to_float(halves[i]);
    }
    return halves;
  }
};

// The chain of one block. The baseline has no fused multiply-add.
float plain_chain(const float* x, std::int64_t x_step, const float* y, std::int64_t y_step, std::int64_t count) {
  float chain = 0;
  for (std::int64_t k = 0; k < count; ++k) chain += x[k * x_step] * y[k * y_step];
  return chain;
}
float fused_chain(const float* x, std::int64_t x_step, const float* y, std::int64_t y_step, std::int64_t count) {
  float chain = 0;
  for (std::int64_t k = 0; k < count; ++k) chain = std::fma(x[k * x_step], y[k * y_step], chain);
  return chain;
}

// numerics.md section 3.1, one element at a time.
float element(const ProductTask& task, std::int64_t i, std::int64_t j, float before, bool fused) {
  const std::int64_t a_step = task.a_transposed ? task.a_stride : 1, b_step = task.b_transposed ? 1 : task.b_stride;
  const float* a = static_cast<const float*>(task.a) + i * (task.a_transposed ? 1 : task.a_stride);
  const float* b = static_cast<const float*>(task.b) + j * (task.b_transposed ? task.b_stride : 1);
  float sum = before;
  for (std::int64_t k = 0; k < task.k; k += 256) {
    const auto chain = fused ? fused_chain : plain_chain;
    const float block = chain(a + k * a_step, a_step, b + k * b_step, b_step, std::min<std::int64_t>(256, task.k - k));
    sum = k == 0 && !task.accumulate ? block : sum + block;
  }
  return sum;
}

// Which operands are bf16.
struct Halves {
  bool a, b;
};

// Every element of C against the scalar chain (of the widened operands), and that nothing beside C was written.
void expect_exact(Product& product, const Case& c, bool a_transposed, bool b_transposed, bool accumulate, const Halves& halves,
                  std::mt19937& random) {
  const std::int64_t gap = c.crowded ? round_up(c.k, 1024) - c.k : static_cast<std::int64_t>(random() % 5);
  Strided a = a_transposed ? Strided(c.k, c.m, gap, random) : Strided(c.m, c.k, gap, random);
  Strided b = b_transposed ? Strided(c.n, c.k, gap, random) : Strided(c.k, c.n, gap, random);
  Strided to(c.m, c.n, gap, random);
  const Strided before = to;
  const std::vector<BFloat16> half_a = halves.a ? a.halved() : std::vector<BFloat16>(),
                              half_b = halves.b ? b.halved() : std::vector<BFloat16>();
  const ProductTask task{.m = c.m,
                         .n = c.n,
                         .k = c.k,
                         .a = a.values.data(),
                         .a_stride = a.stride,
                         .a_transposed = a_transposed,
                         .b = b.values.data(),
                         .b_stride = b.stride,
                         .b_transposed = b_transposed,
                         .c = to.values.data(),
                         .c_stride = to.stride,
                         .accumulate = accumulate};
  ProductTask stored = task;
  if (halves.a) stored.a = half_a.data(), stored.a_type = DType::bf16;
  if (halves.b) stored.b = half_b.data(), stored.b_type = DType::bf16;
  product.run(stored);
  const bool fused = product.isa() != Isa::baseline;
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < c.m; ++i)
    for (std::int64_t j = 0; j < to.stride; ++j)
      if (to.at(i, j) != (j < c.n ? element(task, i, j, before.at(i, j), fused) : before.at(i, j))) ++wrong;
  EXPECT_EQ(wrong, 0) << c.m << " x " << c.n << " x " << c.k << (a_transposed ? " At" : "") << (b_transposed ? " Bt" : "")
                      << (accumulate ? " +=" : "") << (halves.a ? " bf16 A" : "") << (halves.b ? " bf16 B" : "") << " on "
                      << name_of(product.isa()) << ", " << product.team().size() << " threads";
}

class Products : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, Products, testing::Values(1, 2, 3, 4));

TEST_P(Products, EveryElementIsTheChain) {
  std::mt19937 random(7);
  Team team(GetParam());
  const std::vector<std::int64_t> sizes{1, 3, 7, 17, 30, 65, 100};
  const std::vector<std::int64_t> depths{1, 3, 30, 255, 256, 257, 513};
  for (const Isa isa : available_isas()) {
    Product product(team, isa, host_memory(), Bf16Order::widened);
    for (int draw = 0; draw < 120; ++draw) {
      const Case c{sizes[random() % sizes.size()], sizes[random() % sizes.size()], depths[random() % depths.size()]};
      const Halves halves{random() % 2 == 0, random() % 2 == 0};
      expect_exact(product, c, random() % 2 == 0, random() % 2 == 0, random() % 2 == 0, halves, random);
    }
  }
}

TEST_P(Products, LargeShapesTakeEveryWay) {
  std::mt19937 random(8);
  Team team(GetParam());
  Product product(team, Isa::automatic, host_memory(), Bf16Order::widened);
  // Many rows, of one stripe and of several; several stripes; more k than a packed stripe holds, of one strip and stripe and of
  // several.
  for (const Case& c : {Case{2060, 97, 5}, Case{790, 1000, 70}, Case{20, 1200, 9}, Case{13, 97, 4100}, Case{100, 193, 4100},
                        Case{270, 385, 1030}, Case{100, 385, 1900}})
    for (const bool a_transposed : {false, true})
      for (const bool accumulate : {false, true}) {
        expect_exact(product, c, a_transposed, !a_transposed, accumulate, {false, false}, random);
        if (accumulate == a_transposed) expect_exact(product, c, a_transposed, !a_transposed, accumulate, {true, true}, random);
      }
}

// Rows of A lie a multiple of 4 KiB apart here. Tiles then read a copy.
TEST_P(Products, RowsThatCrowdACacheChangeNothing) {
  std::mt19937 random(9);
  Team team(GetParam());
  for (const Isa isa : available_isas()) {
    Product product(team, isa, host_memory(), Bf16Order::widened);
    for (const Case& c : {Case{30, 97, 1000, true}, Case{150, 193, 1024, true}, Case{100, 193, 4100, true}})
      for (const bool accumulate : {false, true}) expect_exact(product, c, false, true, accumulate, {false, false}, random);
  }
}

// Whole lines, which tiles may store past the caches, and a last panel that has none.
TEST_P(Products, StoredPastTheCachesTheyAreTheSame) {
  std::mt19937 random(10);
  Team team(GetParam());
  constexpr std::int64_t m = 101, n = 200, k = 300, stride = 208, floats = m * stride;
  const Strided a(k, m, 3, random), b(k, n, 5, random);
  for (const Isa isa : available_isas()) {
    Product product(team, isa, host_memory(), Bf16Order::widened);
    const auto multiplied = [&](bool stream) {
      const Memory memory = host_memory().allocate(floats * sizeof(float));
      auto* const c = reinterpret_cast<float*>(memory.data());
      std::fill_n(c, floats, -1.0F);
      product.run({.m = m,
                   .n = n,
                   .k = k,
                   .a = a.values.data(),
                   .a_stride = a.stride,
                   .a_transposed = true,
                   .b = b.values.data(),
                   .b_stride = b.stride,
                   .b_transposed = false,
                   .c = c,
                   .c_stride = stride,
                   .stream = stream});
      return std::vector<float>(c, c + floats);
    };
    EXPECT_EQ(multiplied(true), multiplied(false)) << name_of(isa);
  }
}

// A finish meets the sums of a strip in the worker's scratch, which a wide C of few k must not outgrow.
class ProductsOf : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, ProductsOf, testing::Values(DType::f32, DType::bf16),
                         [](const auto& type) { return std::string(lockstep::name_of(type.param)); });

TEST(Product, AFinishSeesEveryElementOfAWideProduct) {
  std::mt19937 random(11);
  Team team(2);
  Product product(team, Isa::automatic, host_memory());
  const Strided a(1900, 5, 0, random), b(5, 3000, 0, random);
  Strided expected(1900, 3000, 0, random), finished = expected;
  ProductTask task{.m = 1900,
                   .n = 3000,
                   .k = 5,
                   .a = a.values.data(),
                   .a_stride = 5,
                   .a_transposed = false,
                   .b = b.values.data(),
                   .b_stride = 3000,
                   .b_transposed = false,
                   .c = expected.values.data(),
                   .c_stride = 3000};
  product.run(task);
  task.finish = {[](const void* context, const Area& area, const float* from, std::int64_t stride) {
                   float* to = *static_cast<float* const*>(context) + area.row * 3000 + area.column;
                   for (std::int64_t i = 0; i < area.rows; ++i) std::copy_n(from + i * stride, area.columns, to + i * 3000);
                 },
                 &task.c};
  task.c = finished.values.data();
  product.run(task);
  EXPECT_EQ(finished.values, expected.values);
}

TEST_P(ProductsOf, FewRowsAreTheRowsOfManyRows) {
  std::mt19937 random(9);
  Team team(2);
  Product product(team, Isa::automatic, host_memory());
  constexpr std::int64_t n = 109;
  for (const std::int64_t k : {3, 64, 256, 300, 512, 700, 768, 1024, 1300, 1600, 1800, 2048}) {
    Strided x(60, k, 3, random), w(n, k, 1, random);
    Strided all(60, n, 0, random);
    const bool half = GetParam() == DType::bf16;
    const std::vector<BFloat16> half_x = x.halved(), half_w = w.halved();
    const auto run = [&](std::int64_t first, std::int64_t rows, float* to) {
      const std::int64_t at = first * x.stride;
      product.run({.m = rows,
                   .n = n,
                   .k = k,
                   .a = half ? static_cast<const void*>(half_x.data() + at) : x.values.data() + at,
                   .a_stride = x.stride,
                   .a_transposed = false,
                   .a_type = GetParam(),
                   .b = half ? static_cast<const void*>(half_w.data()) : w.values.data(),
                   .b_stride = w.stride,
                   .b_transposed = true,
                   .b_type = GetParam(),
                   .c = to,
                   .c_stride = n});
    };
    run(0, 60, all.values.data());
    for (std::int64_t rows = 1; rows <= 12; ++rows) {
      std::vector<float> few(static_cast<std::size_t>(rows * n));
      run(4 * rows, rows, few.data());
      EXPECT_TRUE(std::equal(few.begin(), few.end(), all.values.begin() + 4 * rows * n)) << rows << " rows, k = " << k;
    }
  }
}

TEST(Product, AloneInsideATeamItIsTheSame) {
  std::mt19937 random(10);
  Team team(3);
  Product product(team, Isa::automatic, host_memory());
  const Strided a(70, 300, 0, random), b(300, 50, 0, random);
  Strided expected(70, 50, 0, random);
  ProductTask task{.m = 70,
                   .n = 50,
                   .k = 300,
                   .a = a.values.data(),
                   .a_stride = 300,
                   .a_transposed = false,
                   .b = b.values.data(),
                   .b_stride = 50,
                   .b_transposed = false,
                   .c = expected.values.data(),
                   .c_stride = 50};
  product.run(task);
  std::vector<std::vector<float>> results(9, std::vector<float>(70 * 50));
  team.for_each(9, [&](std::int64_t tile, int worker) {
    ProductTask own = task;
    own.c = results[static_cast<std::size_t>(tile)].data();
    product.run_alone(own, worker);
  });
  for (const auto& result : results) EXPECT_EQ(result, expected.values);
}

TEST(Isa, NamesAndChoice) {
  for (const Isa isa : {Isa::automatic, Isa::baseline, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx, Isa::neon})
    EXPECT_EQ(isa_from_name(name_of(isa)), isa);
  EXPECT_THROW(isa_from_name("avx9"), UserError);
  const std::vector<Isa> isas = available_isas();
  EXPECT_TRUE(isas.back() == Isa::baseline || isas == std::vector{Isa::neon});
  EXPECT_EQ(resolve(Isa::automatic), isas.front());
  for (const Isa isa : {Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx, Isa::neon}) {
    if (std::find(isas.begin(), isas.end(), isa) == isas.end()) {
      EXPECT_THROW(resolve(isa), UserError);
    } else {
      EXPECT_EQ(resolve(isa), isa);
    }
  }
}

}  // namespace
}  // namespace lockstep::ops::cpu
