// The instructions for bf16 products against their emulation, on a processor that has them.

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "ops/bf16_products.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/options.h"

namespace lockstep::ops::cpu {
namespace {

class Bf16OrdersByInstruction : public testing::TestWithParam<Bf16Order> {
 protected:
  void SetUp() override {
    if (!has_instruction_of(GetParam())) GTEST_SKIP() << "this processor has no instruction for " << name_of(GetParam());
  }
  Product by_instruction(Team& team) { return {team, isa_, host_memory(), GetParam()}; }
  Product emulated(Team& team, Isa isa) {
    return {team, isa, host_memory(), GetParam() == Bf16Order::amx ? Bf16Way::emulated_amx : Bf16Way::emulated_pairs};
  }
  void compare(const std::vector<Case>& cases, Numbers numbers) {
    Team team(2);
    Product product = by_instruction(team);
    std::vector<Product> twins;
    for (const Isa isa : {isa_, Isa::avx2}) twins.push_back(emulated(team, isa));
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
  Isa isa_ = GetParam() == Bf16Order::amx ? Isa::amx : Isa::avx512_bf16;
  std::mt19937 random_{3};
};
INSTANTIATE_TEST_SUITE_P(Each, Bf16OrdersByInstruction, testing::Values(Bf16Order::pairs, Bf16Order::amx),
                         [](const auto& one) { return std::string(name_of(one.param)); });

TEST_P(Bf16OrdersByInstruction, GivesTheBitsOfTheEmulation) { compare(some_cases(), Numbers::ordinary); }
TEST_P(Bf16OrdersByInstruction, TakesDenormalsForZeros) { compare(some_cases(), Numbers::tiny); }

// They are read in place, several blocks of k at once.
TEST_P(Bf16OrdersByInstruction, FewRowsOfManyBlocks) {
  std::vector<Case> cases;
  for (std::int64_t rows = 1; rows <= 8; ++rows)
    for (const std::int64_t k : {512, 768, 1024, 1301, 1800}) cases.push_back({rows, 45, k});
  compare(cases, Numbers::ordinary);
}

// Tiles that are whole and that are not, in place and copied, in several passes over K.
TEST_P(Bf16OrdersByInstruction, LargeShapes) {
  std::vector<Case> cases;
  for (const bool transposed : {false, true})
    for (const Case& c : {Case{64, 64, 64}, Case{160, 96, 512}, Case{200, 385, 1100}, Case{33, 70, 2048}, Case{1000, 40, 90}})
      cases.push_back({c.m, c.n, c.k, transposed, !transposed, transposed});
  compare(cases, Numbers::ordinary);
}

TEST_P(Bf16OrdersByInstruction, KeepsWhatIsNotFinite) {
  Team team(1);
  Product product = by_instruction(team), twin = emulated(team, Isa::avx2);
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
