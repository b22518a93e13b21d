// Each test has its own seed, which follows from LOCKSTEP_EMULATION_SEED and its name. A failure tells how to see it again.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "emulation/emulation.h"

namespace lockstep::emulation {
namespace {

std::string chosen_seed() {
  const char* text = std::getenv("LOCKSTEP_EMULATION_SEED");
  return text == nullptr ? "1" : text;
}

class Seeds final : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    set_seed(std::hash<std::string>()(chosen_seed() + test.test_suite_name() + test.name()));
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    if (test.result()->Failed()) std::printf("to see it again: LOCKSTEP_EMULATION_SEED=%s\n", chosen_seed().c_str());
  }
};

class Processor final : public testing::Environment {
  void SetUp() override {
    if (!__builtin_cpu_supports("fma") || !__builtin_cpu_supports("avx2"))
      GTEST_SKIP() << "kernels are compiled for processors with AVX2 and FMA";
  }
};

[[maybe_unused]] const auto* const processor = testing::AddGlobalTestEnvironment(new Processor);
[[maybe_unused]] const bool told = (testing::UnitTest::GetInstance()->listeners().Append(new Seeds), true);

}  // namespace
}  // namespace lockstep::emulation
