// Each test has a seed of its own, which follows from its name; LOCKSTEP_EMULATION_SEED gives all of them another. A failure
// tells how to see it again.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "emulation/emulation.h"

namespace lockstep::emulation {
namespace {

class Seeds final : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    const char* chosen = std::getenv("LOCKSTEP_EMULATION_SEED");
    set_seed(chosen != nullptr ? std::strtoull(chosen, nullptr, 10)
                               : std::hash<std::string>()(std::string(test.test_suite_name()) + test.name()) % 1000000);
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    if (test.result()->Failed())
      std::printf("to see it again: LOCKSTEP_EMULATION_SEED=%llu\n", static_cast<unsigned long long>(seed()));
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
