// The orders of bf16 products that are not fp32's: pairs of k, and AMX's. Their emulation against plain scalar code, on any
// processor with fused multiply-adds.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <ostream>
#include <vector>

#include "base/error.h"
#include "ops/bf16_products.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/options.h"

namespace lockstep::ops::cpu {
namespace {

float without_denormal(float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x; }

// A fused multiply-add that takes denormals for zeros. Whether a result is a denormal is asked of its 24 bits before they meet
// the end of the exponents, hence far from it.
float flushed_fma(float a, float b, float c) {
  a = without_denormal(a);
  b = without_denormal(b);
  const float sum = std::fma(a, b, c);
  if (!(std::fabs(sum) <= std::numeric_limits<float>::min())) return sum;
  float &least = std::fabs(a) < std::fabs(b) ? a : b, far = 0x1p60F;
  least *= far;
  const float far_sum = std::fma(a, b, c * far);
  return std::fabs(far_sum) < std::numeric_limits<float>::min() * far ? std::copysign(0.0F, far_sum) : sum;
}

// What a block of k from `block` on adds up to, one element at a time.
float sum_of_pairs(const Operands& x, std::int64_t i, std::int64_t j, std::int64_t block) {
  const std::int64_t depth = x.shape.k;
  float chain = 0;
  for (std::int64_t k = block; k < std::min(depth, block + 256); k += 2) {
    const bool odd = k + 1 < depth;
    chain = flushed_fma(odd ? x.a_at(i, k + 1) : 0.0F, odd ? x.b_at(k + 1, j) : 0.0F, chain);
    chain = flushed_fma(x.a_at(i, k), x.b_at(k, j), chain);
  }
  return chain;
}

float sum_of_amx(const Operands& x, std::int64_t i, std::int64_t j, std::int64_t block) {
  const std::int64_t depth = x.shape.k;
  float sum = 0;
  for (std::int64_t first = block; first < std::min(depth, block + 256); first += 32) {
    float chains[2] = {};
    for (std::int64_t k = first; k < first + 32; ++k) {
      float& chain = chains[k % 2];
      chain = flushed_fma(k < depth ? x.a_at(i, k) : 0.0F, k < depth ? x.b_at(k, j) : 0.0F, chain);
    }
    sum = flushed_fma(flushed_fma(chains[0], 1, chains[1]), 1, sum);
  }
  return sum;
}

bool is_amx(Bf16Way way) { return way == Bf16Way::amx || way == Bf16Way::emulated_amx; }

float element(const Operands& x, Bf16Way way, std::int64_t i, std::int64_t j) {
  float sum = x.c(i, j);
  for (std::int64_t block = 0; block < x.shape.k; block += 256) {
    const float part = is_amx(way) ? sum_of_amx(x, i, j, block) : sum_of_pairs(x, i, j, block);
    sum = block == 0 && !x.shape.accumulate ? part : sum + part;
  }
  return sum;
}

// How many elements are not the chain, of each `every`-th one, and how many beside C were written.
std::int64_t wrong(const Operands& x, Bf16Way way, const std::vector<float>& to, std::int64_t every = 1) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < x.shape.m; ++i)
    for (std::int64_t j = 0; j < x.c.stride; ++j) {
      const std::int64_t at = i * x.c.stride + j;
      if (j < x.shape.n && at % every != 0) continue;
      count += same(to[static_cast<std::size_t>(at)], j < x.shape.n ? element(x, way, i, j) : x.c(i, j)) ? 0 : 1;
    }
  return count;
}

struct Emulated {
  Bf16Way way;
  int threads;
  friend std::ostream& operator<<(std::ostream& out, const Emulated& one) {
    return out << (is_amx(one.way) ? "Amx" : "Pairs") << one.threads;
  }
};

class Bf16Orders : public testing::TestWithParam<Emulated> {
 protected:
  Product emulated(Isa isa) { return {team_, isa, host_memory(), way_}; }
  Product emulated() { return emulated(available_isas().front()); }
  Bf16Way way_ = GetParam().way;
  Team team_{GetParam().threads};
  std::mt19937 random_{7};
};
INSTANTIATE_TEST_SUITE_P(Each, Bf16Orders,
                         testing::Values(Emulated{Bf16Way::emulated_pairs, 1}, Emulated{Bf16Way::emulated_pairs, 2},
                                         Emulated{Bf16Way::emulated_pairs, 3}, Emulated{Bf16Way::emulated_pairs, 4},
                                         Emulated{Bf16Way::emulated_amx, 1}, Emulated{Bf16Way::emulated_amx, 2},
                                         Emulated{Bf16Way::emulated_amx, 3}, Emulated{Bf16Way::emulated_amx, 4}),
                         testing::PrintToStringParamName());

TEST_P(Bf16Orders, EveryElementIsTheChain) {
  for (const Isa isa : available_isas()) {
    Product product = emulated(isa);
    for (int i = 0; i < 120; ++i) {
      const Operands x(any_case(random_), i % 3 == 0 ? Numbers::tiny : Numbers::ordinary, random_() % 5, random_);
      EXPECT_EQ(wrong(x, way_, x.run(product)), 0) << text(product, x.shape);
    }
  }
}

TEST_P(Bf16Orders, LargeShapesTakeEveryWay) {
  Product product = emulated();
  // Many rows; several stripes; more k than a packed stripe holds, of one stripe and of several.
  for (Case c : {Case{2060, 97, 5}, Case{20, 1200, 9}, Case{13, 97, 8201}, Case{270, 385, 2061}, Case{100, 385, 3800}})
    for (const bool a_transposed : {false, true}) {
      c.a_transposed = c.accumulate = a_transposed;
      c.b_transposed = !a_transposed;
      const Operands x(c, Numbers::ordinary, 3, random_);
      EXPECT_EQ(wrong(x, way_, x.run(product), 29), 0) << text(product, c);
    }
}

TEST_P(Bf16Orders, SlicesAndFewRowsAreThoseOfTheWhole) {
  Product product = emulated();
  for (const std::int64_t depth : {701, 1300}) {
    const Operands x({60, 210, depth}, Numbers::ordinary, 1, random_);
    const std::vector<float> all = x.run(product);
    for (std::int64_t rows = 1; rows <= 12; ++rows) {
      for (const std::int64_t columns : {1, 35, 209}) {
        const std::int64_t row = 3 * rows, column = 210 - columns, at = row * x.c.stride + column;
        std::vector<float> part = all;
        for (std::int64_t i = 0; i < rows; ++i)
          std::fill_n(part.begin() + at + i * x.c.stride, columns, std::numeric_limits<float>::quiet_NaN());
        ProductTask task = x.task(part.data() + at);
        task.m = rows;
        task.n = columns;
        task.a = &x.a(row, 0);
        task.b = &x.b(column, 0);
        product.run(task);
        EXPECT_EQ(different(part, all), 0) << rows << " rows, " << columns << " columns";
      }
    }
  }
}

TEST_P(Bf16Orders, AFinishAndAWorkerAloneSeeTheSameSums) {
  Product product = emulated();
  for (const std::int64_t rows : {3, 70}) {
    const Operands x({rows, 150, 301}, Numbers::ordinary, 0, random_);
    const std::vector<float> expected = x.run(product);
    struct To {
      std::vector<float> values;
      static void write(const void* context, const Area& area, const float* from, std::int64_t stride) {
        float* to = static_cast<const To*>(context)->start + area.row * 150 + area.column;
        for (std::int64_t i = 0; i < area.rows; ++i) std::copy_n(from + i * stride, area.columns, to + i * 150);
      }
      float* start = values.data();
    } finished{std::vector<float>(expected.size())};
    ProductTask task = x.task(nullptr);
    task.finish = {&To::write, &finished};
    product.run(task);
    EXPECT_EQ(different(finished.values, expected), 0) << rows << " rows";
    std::vector<float> alone(expected.size());
    team_.for_each(1, [&](std::int64_t, int worker) { product.run_alone(x.task(alone.data()), worker); });
    EXPECT_EQ(different(alone, expected), 0) << rows << " rows";
  }
}

TEST_P(Bf16Orders, AnOddKCountsAsOneMoreOfZeros) {
  Product product = emulated();
  for (const Numbers numbers : {Numbers::ordinary, Numbers::tiny})
    for (const std::int64_t rows : {2, 21})
      for (const std::int64_t k : {1, 5, 255, 601}) {
        const Operands x({rows, 37, k}, numbers, 0, random_);
        Operands more({rows, 37, k + 1}, numbers, 0, random_);
        for (auto [from, to] : {std::pair{&x.a, &more.a}, std::pair{&x.b, &more.b}})
          for (std::int64_t row = 0; row < from->rows; ++row) {
            std::copy_n(from->values.begin() + row * k, k, to->values.begin() + row * (k + 1));
            to->values[static_cast<std::size_t>(row * (k + 1) + k)] = to_bfloat16(0);
          }
        EXPECT_EQ(different(x.run(product), more.run(product)), 0) << rows << " rows, " << k;
      }
}

TEST_P(Bf16Orders, DenormalsAreZerosInsideAProductAndNowhereElse) {
  Product product = emulated();
  const Operands x({40, 40, 2}, Numbers::tiny, 0, random_);
  std::int64_t flushed = 0, negative_zeros = 0;
  const std::vector<float> sums = x.run(product);
  for (std::int64_t i = 0; i < 40; ++i)
    for (std::int64_t j = 0; j < 40; ++j) {
      const double exact = static_cast<double>(x.a_at(i, 0)) * x.b_at(0, j) + static_cast<double>(x.a_at(i, 1)) * x.b_at(1, j);
      const float sum = sums[static_cast<std::size_t>(i * 40 + j)];
      EXPECT_FALSE(std::fpclassify(sum) == FP_SUBNORMAL);
      if (sum == 0 && exact != 0) ++flushed;
      if (sum == 0 && std::signbit(sum)) ++negative_zeros;
    }
  EXPECT_GT(flushed, 0);
  // AMX adds to a zero without a sign.
  EXPECT_EQ(negative_zeros > 0, !is_amx(way_));
  // A sum is small before it is rounded to what a denormal holds: this one is rounded up to the least normal number there.
  Operands edge({1, 1, 2}, Numbers::ordinary, 0, random_);
  edge.a.values = {to_bfloat16(-0x1.8p-75F), to_bfloat16(0x1p-63F)};
  edge.b.values = {to_bfloat16(0x1p-76F), to_bfloat16(0x1p-63F)};
  EXPECT_EQ(edge.run(product)[0], is_amx(way_) ? 0x1p-126F : 0.0F);
  EXPECT_EQ(edge.run(product)[0], element(edge, way_, 0, 0));
  // What is added to an old C is added as everywhere, and the threads compute on as they did.
  Operands onto({1, 1, 1, true, true, true}, Numbers::ordinary, 0, random_);
  onto.c.values[0] = 0x1.8p-126F;
  onto.a.values[0] = to_bfloat16(-1);
  onto.b.values[0] = to_bfloat16(0x1p-126F);
  EXPECT_EQ(onto.run(product)[0], 0x1p-127F);
  team_.for_each(team_.size(), [](std::int64_t, int) {
    volatile float least = std::numeric_limits<float>::min();
    EXPECT_EQ(least / 2 * 2, least);
  });
}

TEST_P(Bf16Orders, LieCloseToTheFirstOrder) {
  Product pairs = emulated(), widened(team_, Isa::automatic, host_memory(), Bf16Order::widened);
  for (const std::int64_t k : {30, 768, 3000}) {
    const Operands x({20, 70, k}, Numbers::ordinary, 0, random_);
    const std::vector<float> one = x.run(pairs), other = x.run(widened);
    std::int64_t equal = 0;
    for (std::int64_t i = 0; i < 20; ++i)
      for (std::int64_t j = 0; j < 70; ++j) {
        double size = 0;
        for (std::int64_t l = 0; l < k; ++l) size += std::fabs(static_cast<double>(x.a_at(i, l)) * x.b_at(l, j));
        const auto at = static_cast<std::size_t>(i * 70 + j);
        EXPECT_LE(std::fabs(one[at] - other[at]), size * 0x1p-21) << k;
        if (one[at] == other[at]) ++equal;
      }
    EXPECT_LT(equal, 20 * 70) << "both orders are one";
  }
}

// The gradient of logits is f32.
TEST_P(Bf16Orders, OneFloatOperandHasTheFirstOrder) {
  Product pairs = emulated(), widened(team_, Isa::automatic, host_memory(), Bf16Order::widened);
  for (const std::int64_t rows : {3, 21})
    for (const bool first : {false, true}) {
      const Operands x({rows, 40, 300}, Numbers::ordinary, 0, random_);
      const Halves& half = first ? x.a : x.b;
      Matrix<float> wide(half.rows, half.columns);
      std::transform(half.values.begin(), half.values.end(), wide.values.begin(), to_float);
      std::vector<float> one = x.c.values, other = one;
      for (auto [product, to] : {std::pair{&pairs, &one}, std::pair{&widened, &other}}) {
        ProductTask task = x.task(to->data());
        (first ? task.a : task.b) = wide.values.data();
        (first ? task.a_type : task.b_type) = DType::f32;
        product->run(task);
      }
      EXPECT_EQ(different(one, other), 0);
      EXPECT_EQ(different(one, x.run(widened)), 0);
    }
}

TEST(Bf16Order, FollowsTheProcessor) {
  EXPECT_EQ(bf16_order_for(true, Isa::avx512_bf16), Bf16Order::pairs);
  EXPECT_EQ(bf16_order_for(true, Isa::avx512), Bf16Order::widened);
  EXPECT_EQ(bf16_order_for(false, Isa::avx512_bf16), Bf16Order::widened);
  EXPECT_EQ(bf16_order_for(false, Isa::avx2), Bf16Order::widened);
  for (const bool of_amd : {false, true}) EXPECT_EQ(bf16_order_for(of_amd, Isa::amx), Bf16Order::amx);
  for (const Isa isa : available_isas()) {
    const bool pairs = isa == Isa::avx512_bf16 || isa == Isa::amx;
    EXPECT_EQ(way_of(Bf16Order::pairs, isa), pairs ? Bf16Way::pairs : Bf16Way::emulated_pairs);
    EXPECT_EQ(way_of(Bf16Order::amx, isa), isa == Isa::amx ? Bf16Way::amx : Bf16Way::emulated_amx);
    EXPECT_EQ(way_of(Bf16Order::widened, isa), Bf16Way::widened);
    EXPECT_EQ(way_of(Bf16Order::automatic, isa), way_of(usual_bf16_order(), isa));
  }
}

TEST(Bf16Order, HasNames) {
  for (const Bf16Order order : {Bf16Order::automatic, Bf16Order::widened, Bf16Order::pairs, Bf16Order::amx})
    EXPECT_EQ(bf16_order_from_name(name_of(order)), order);
  EXPECT_THROW(bf16_order_from_name("triples"), UserError);
}

}  // namespace
}  // namespace lockstep::ops::cpu
