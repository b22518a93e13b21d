// The second order of bf16 products: pairs of k. Its emulation against plain scalar code here, on any processor with fused
// multiply-adds; the instruction against its emulation (Bf16PairsByInstruction) on one that has it.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/options.h"
#include "ops/cpu/product/product.h"
#include "tensor/bfloat16.h"

namespace lockstep::ops::cpu {
namespace {

struct Case {
  std::int64_t m, n, k;
  bool a_transposed = false, b_transposed = true, accumulate = false;
};

// A matrix with rows further apart than they are long.
template <class T>
struct Matrix {
  std::int64_t rows, columns, stride;
  std::vector<T> values;

  Matrix(std::int64_t r, std::int64_t c, std::int64_t gap = 0)
      : rows(r), columns(c), stride(c + gap), values(static_cast<std::size_t>(r * (c + gap))) {}
  const T& operator()(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * stride + column)];
  }
};
using Halves = Matrix<BFloat16>;

// Ordinary numbers; or such that products, and sums of a few of them, lie about the least normal number, with zeros of both
// signs and denormals among them.
enum class Numbers { ordinary, tiny };
BFloat16 draw(Numbers numbers, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  const float x = uniform(random);
  if (numbers == Numbers::ordinary) return to_bfloat16(x);
  const auto kind = random() % 16;
  if (kind == 0) return to_bfloat16(std::copysign(0.0F, x));
  if (kind == 1) return to_bfloat16(std::ldexp(x, -128));
  return to_bfloat16(std::ldexp(x, -62 + static_cast<int>(random() % 3)));
}

Halves drawn(std::int64_t rows, std::int64_t columns, std::int64_t gap, Numbers numbers, std::mt19937& random) {
  Halves matrix(rows, columns, gap);
  for (BFloat16& x : matrix.values) x = draw(numbers, random);
  return matrix;
}

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

struct Operands {
  Case shape;
  Halves a, b;
  Matrix<float> c;

  Operands(const Case& s, Numbers numbers, std::int64_t gap, std::mt19937& random)
      : shape(s),
        a(s.a_transposed ? drawn(s.k, s.m, gap, numbers, random) : drawn(s.m, s.k, gap, numbers, random)),
        b(s.b_transposed ? drawn(s.n, s.k, gap, numbers, random) : drawn(s.k, s.n, gap, numbers, random)),
        c(s.m, s.n, gap) {
    for (float& x : c.values) x = to_float(draw(numbers, random));
  }
  float a_at(std::int64_t i, std::int64_t k) const { return to_float(shape.a_transposed ? a(k, i) : a(i, k)); }
  float b_at(std::int64_t k, std::int64_t j) const { return to_float(shape.b_transposed ? b(j, k) : b(k, j)); }
  ProductTask task(float* to) const {
    return {.m = shape.m,
            .n = shape.n,
            .k = shape.k,
            .a = a.values.data(),
            .a_stride = a.stride,
            .a_transposed = shape.a_transposed,
            .a_type = DType::bf16,
            .b = b.values.data(),
            .b_stride = b.stride,
            .b_transposed = shape.b_transposed,
            .b_type = DType::bf16,
            .c = to,
            .c_stride = c.stride,
            .accumulate = shape.accumulate};
  }
  std::vector<float> run(Product& product) const {
    std::vector<float> to = c.values;
    product.run(task(to.data()));
    return to;
  }
};

// The order, one element at a time.
float element(const Operands& x, std::int64_t i, std::int64_t j) {
  const std::int64_t depth = x.shape.k;
  float sum = x.c(i, j);
  for (std::int64_t block = 0; block < depth; block += 256) {
    float chain = 0;
    for (std::int64_t k = block; k < std::min(depth, block + 256); k += 2) {
      const bool odd = k + 1 < depth;
      chain = flushed_fma(odd ? x.a_at(i, k + 1) : 0.0F, odd ? x.b_at(k + 1, j) : 0.0F, chain);
      chain = flushed_fma(x.a_at(i, k), x.b_at(k, j), chain);
    }
    sum = block == 0 && !x.shape.accumulate ? chain : sum + chain;
  }
  return sum;
}

// A NaN is a NaN.
bool same(float x, float y) {
  return (std::isnan(x) && std::isnan(y)) || std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
}

std::int64_t different(const std::vector<float>& x, const std::vector<float>& y) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < x.size(); ++i) count += same(x[i], y[i]) ? 0 : 1;
  return count;
}

// How many elements are not the chain, of each `every`-th one, and how many beside C were written.
std::int64_t wrong(const Operands& x, const std::vector<float>& to, std::int64_t every = 1) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < x.shape.m; ++i)
    for (std::int64_t j = 0; j < x.c.stride; ++j) {
      const std::int64_t at = i * x.c.stride + j;
      if (j < x.shape.n && at % every != 0) continue;
      count += same(to[static_cast<std::size_t>(at)], j < x.shape.n ? element(x, i, j) : x.c(i, j)) ? 0 : 1;
    }
  return count;
}

std::string text(const Product& product, const Case& c) {
  return std::to_string(c.m) + " x " + std::to_string(c.n) + " x " + std::to_string(c.k) + (c.a_transposed ? " At" : "") +
         (c.b_transposed ? " Bt" : "") + (c.accumulate ? " +=" : "") + " on " + std::string(name_of(product.isa())) + ", " +
         std::to_string(product.team().size()) + " threads";
}

Case any_case(std::mt19937& random) {
  constexpr std::int64_t sizes[] = {1, 3, 7, 8, 17, 30, 65, 100}, depths[] = {1, 2, 3, 30, 31, 255, 256, 257, 511, 513, 600};
  return {sizes[random() % 8], sizes[random() % 8], depths[random() % 11],
          random() % 2 == 0,   random() % 2 == 0,   random() % 2 == 0};
}

class Bf16Pairs : public testing::TestWithParam<int> {
 protected:
  Product emulated(Isa isa) { return {team_, isa, host_memory(), Bf16Way::emulated_pairs}; }
  Product emulated() { return emulated(available_isas().front()); }
  Team team_{GetParam()};
  std::mt19937 random_{7};
};
INSTANTIATE_TEST_SUITE_P(Threads, Bf16Pairs, testing::Values(1, 2, 3, 4));

TEST_P(Bf16Pairs, EveryElementIsTheChain) {
  for (const Isa isa : available_isas()) {
    Product product = emulated(isa);
    for (int i = 0; i < 120; ++i) {
      const Operands x(any_case(random_), i % 3 == 0 ? Numbers::tiny : Numbers::ordinary, random_() % 5, random_);
      EXPECT_EQ(wrong(x, x.run(product)), 0) << text(product, x.shape);
    }
  }
}

TEST_P(Bf16Pairs, LargeShapesTakeEveryWay) {
  Product product = emulated();
  // Many rows; several stripes; more k than a packed stripe holds, of one stripe and of several.
  for (Case c : {Case{2060, 97, 5}, Case{20, 1200, 9}, Case{13, 97, 8201}, Case{270, 385, 2061}, Case{100, 385, 3800}})
    for (const bool a_transposed : {false, true}) {
      c.a_transposed = c.accumulate = a_transposed;
      c.b_transposed = !a_transposed;
      const Operands x(c, Numbers::ordinary, 3, random_);
      EXPECT_EQ(wrong(x, x.run(product), 29), 0) << text(product, c);
    }
}

TEST_P(Bf16Pairs, SlicesAndFewRowsAreThoseOfTheWhole) {
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

TEST_P(Bf16Pairs, AFinishAndAWorkerAloneSeeTheSameSums) {
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

TEST_P(Bf16Pairs, AnOddKCountsAsOneMoreOfZeros) {
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

TEST_P(Bf16Pairs, DenormalsAreZerosInsideAProductAndNowhereElse) {
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
  EXPECT_GT(negative_zeros, 0);
  // A sum is small before it is rounded to what a denormal holds: this one is rounded up to the least normal number there.
  Operands edge({1, 1, 2}, Numbers::ordinary, 0, random_);
  edge.a.values = {to_bfloat16(-0x1.8p-75F), to_bfloat16(0x1p-63F)};
  edge.b.values = {to_bfloat16(0x1p-76F), to_bfloat16(0x1p-63F)};
  EXPECT_EQ(edge.run(product)[0], 0.0F);
  EXPECT_EQ(element(edge, 0, 0), 0.0F);
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

TEST_P(Bf16Pairs, LieCloseToTheFirstOrder) {
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
TEST_P(Bf16Pairs, OneFloatOperandHasTheFirstOrder) {
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
  EXPECT_EQ(bf16_order_for(true, true), Bf16Order::pairs);
  EXPECT_EQ(bf16_order_for(true, false), Bf16Order::widened);
  EXPECT_EQ(bf16_order_for(false, true), Bf16Order::widened);
  EXPECT_EQ(bf16_order_for(false, false), Bf16Order::widened);
  for (const Isa isa : available_isas()) {
    EXPECT_EQ(way_of(Bf16Order::pairs, isa), isa == Isa::avx512_bf16 ? Bf16Way::pairs : Bf16Way::emulated_pairs);
    EXPECT_EQ(way_of(Bf16Order::widened, isa), Bf16Way::widened);
    EXPECT_EQ(way_of(Bf16Order::automatic, isa), way_of(usual_bf16_order(), isa));
  }
}

TEST(Bf16Order, HasNames) {
  for (const Bf16Order order : {Bf16Order::automatic, Bf16Order::widened, Bf16Order::pairs})
    EXPECT_EQ(bf16_order_from_name(name_of(order)), order);
  EXPECT_THROW(bf16_order_from_name("triples"), UserError);
}

class Bf16PairsByInstruction : public testing::Test {
 protected:
  void SetUp() override {
    if (available_isas().front() != Isa::avx512_bf16) GTEST_SKIP() << "this processor has no AVX-512-bf16";
  }
  void compare(const std::vector<Case>& cases, Numbers numbers) {
    Team team(2);
    Product product(team, Isa::avx512_bf16, host_memory(), Bf16Order::pairs);
    std::vector<Product> twins;
    for (const Isa isa : {Isa::avx512_bf16, Isa::avx2}) twins.emplace_back(team, isa, host_memory(), Bf16Way::emulated_pairs);
    for (const Case& c : cases) {
      const Operands x(c, numbers, random_() % 5, random_);
      const std::vector<float> sums = x.run(product);
      for (Product& twin : twins) EXPECT_EQ(different(sums, x.run(twin)), 0) << text(twin, x.shape);
    }
  }
  std::vector<Case> some_cases() {
    std::vector<Case> cases(60);
    for (Case& c : cases) c = any_case(random_);
    return cases;
  }
  std::mt19937 random_{3};
};

TEST_F(Bf16PairsByInstruction, GivesTheBitsOfTheEmulation) { compare(some_cases(), Numbers::ordinary); }
TEST_F(Bf16PairsByInstruction, TakesDenormalsForZeros) { compare(some_cases(), Numbers::tiny); }

// They are read in place, several blocks of k at once.
TEST_F(Bf16PairsByInstruction, FewRowsOfManyBlocks) {
  std::vector<Case> cases;
  for (std::int64_t rows = 1; rows <= 8; ++rows)
    for (const std::int64_t k : {512, 768, 1024, 1301, 1800}) cases.push_back({rows, 45, k});
  compare(cases, Numbers::ordinary);
}

TEST_F(Bf16PairsByInstruction, KeepsWhatIsNotFinite) {
  Team team(1);
  Product product(team, Isa::avx512_bf16, host_memory(), Bf16Order::pairs),
      twin(team, Isa::avx2, host_memory(), Bf16Way::emulated_pairs);
  std::mt19937 random(4);
  for (const std::int64_t rows : {3, 20}) {
    Operands x({rows, 40, 31}, Numbers::ordinary, 0, random);
    for (const float value : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::max()}) {
      x.a.values[random() % x.a.values.size()] = to_bfloat16(value);
      x.b.values[random() % x.b.values.size()] = to_bfloat16(value);
    }
    EXPECT_EQ(different(x.run(product), x.run(twin)), 0) << rows << " rows";
  }
}

}  // namespace
}  // namespace lockstep::ops::cpu
