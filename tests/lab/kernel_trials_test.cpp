// Kernels of one device are tried beside another's: here the processor's own, with a fault where a test says so.

#include "lab/kernels/kernel_trials.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <utility>

#include "support/faulty_ops.h"
#include "support/machine.h"

namespace lockstep::lab {
namespace {

TEST(KernelTrials, ThreadsMakeTheSameBitsInEveryFamily) {
  const support::Machine one(1), three(3);
  for (const Bf16Trials bf16 : {Bf16Trials::widened, Bf16Trials::own_order}) {
    std::set<std::string> families;
    const std::vector<KernelTrial> trials = try_kernels({*one.runtime, *one.ops}, {*three.runtime, *three.ops}, bf16);
    for (const KernelTrial& trial : trials) {
      EXPECT_TRUE(trial.right()) << trial.family << " " << trial.what << " " << trial.error;
      EXPECT_EQ(trial.different, 0) << trial.what;
      EXPECT_GT(trial.values, 0) << trial.what;
      families.insert(trial.family);
    }
    EXPECT_EQ(families.size(), bf16 == Bf16Trials::widened ? 13U : 3U);
  }
}

TEST(KernelTrials, AKernelThatDisagreesIsNamed) {
  const support::Machine right(1);
  support::Machine wrong(1);
  const support::OpsFault fault{.attention = [](ops::AttentionShape& shape, ops::DropoutSite&) { shape.scale = 0.3; }};
  support::FaultyOps faulty(std::move(wrong.ops), fault);
  for (const KernelTrial& trial : try_kernels({*right.runtime, *right.ops}, {*wrong.runtime, faulty}, Bf16Trials::widened))
    EXPECT_EQ(trial.right(), trial.family != "attention" || trial.what == "pages of a cache") << trial.family << trial.what;
}

TEST(KernelTrials, AKernelThatThrowsIsNamed) {
  const support::Machine right(1);
  support::Machine wrong(1);
  const support::OpsFault fault{
      .attention = [](ops::AttentionShape&, ops::DropoutSite&) { throw std::runtime_error("no memory"); }};
  support::FaultyOps faulty(std::move(wrong.ops), fault);
  std::set<std::string> errors;
  for (const KernelTrial& trial : try_kernels({*right.runtime, *right.ops}, {*wrong.runtime, faulty}, Bf16Trials::own_order)) {
    if (!trial.error.empty()) errors.insert(trial.family + ": " + trial.error);
  }
  EXPECT_EQ(errors, std::set<std::string>{"attention: no memory"});
}

}  // namespace
}  // namespace lockstep::lab
