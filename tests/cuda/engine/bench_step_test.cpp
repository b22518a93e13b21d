// `lockstep bench step --device cuda` on the emulated GPU.

#include "lab/step/bench_step.h"

#include <gtest/gtest.h>

#include <numeric>

#include "device/choose_device.h"
#include "ops/open_ops.h"

namespace lockstep::lab {
namespace {

constexpr StepShape one_block{"small", 1, 2, 32, 65, 2, 16};

TEST(CudaBenchStep, TimesStepsUntilTheirEndAndEachOp) {
  const std::unique_ptr<Runtime> runtime = open_runtime(choose_device("cuda", 0), {.threads = 1});
  const std::unique_ptr<Stream> stream = runtime->make_stream();
  const std::unique_ptr<ops::Ops> kernels = ops::make_ops(*runtime, *stream);
  const std::unique_ptr<comm::Communicator> world = comm::make_self();
  world->attach(*stream, runtime->team());
  for (const DType type : {DType::f32, DType::bf16}) {
    StepBenchOptions options{.weights = {.type = type}, .steps = 3, .seconds = 1, .version = "1"};
    options.observed_ops = [&](ops::OpObserver& observer) { return ops::make_ops(*runtime, *stream, {.observer = &observer}); };
    const StepReport report = bench_step(one_block, options, *runtime, *kernels, *world);
    EXPECT_GE(report.seconds.size(), 3U);
    EXPECT_NEAR(report.first_loss, 4.17, 0.3);  // log 65: nothing learned yet
    EXPECT_LT(report.last_loss, report.first_loss);
    EXPECT_NEAR(std::accumulate(report.account.begin(), report.account.end(), 0.0), report.account_seconds, 1e-9);
    for (const Part part : {Part::products, Part::attention, Part::rows, Part::loss, Part::update})
      EXPECT_GT(report.account[static_cast<std::size_t>(part)], 0) << name_of(part);
    // Emulated kernels run when they are waited for, and take nearly all of a step.
    EXPECT_LT(report.account[static_cast<std::size_t>(Part::rest)], 0.5 * report.account_seconds);
    const std::string text = answer_of(report, true).text();
    EXPECT_NE(text.find(report.gpu), std::string::npos) << text;
    EXPECT_NE(text.find("each op is waited for"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace lockstep::lab
