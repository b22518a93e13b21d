// What `lockstep doctor --device cuda` tries on a GPU agrees on the emulated one.

#include "lab/kernels/kernel_trials.h"

#include <gtest/gtest.h>

#include "lab/kernels/kernel_rates.h"
#include "ops/open_ops.h"

namespace lockstep::lab {
namespace {

TEST(KernelTrials, EmulatedKernelsAgreeWithTheProcessors) {
  for (const Bf16Trials bf16 : {Bf16Trials::widened, Bf16Trials::own_order}) {
    const bool widened = bf16 == Bf16Trials::widened;
    const std::unique_ptr<Runtime> host = open_runtime({}, {.threads = 1});
    const std::unique_ptr<Stream> host_stream = host->make_stream();
    const std::unique_ptr<ops::Ops> processor = ops::make_ops(*host, *host_stream, {.cpu = {.bf16 = ops::Bf16Order::widened}});
    const std::unique_ptr<Runtime> runtime = open_runtime({DeviceKind::cuda, 0});
    const std::unique_ptr<Stream> stream = runtime->make_stream();
    const std::unique_ptr<ops::Ops> kernels =
        ops::make_ops(*runtime, *stream, {.cpu = {.bf16 = widened ? ops::Bf16Order::widened : ops::Bf16Order::automatic}});
    std::int64_t different = 0;
    for (const KernelTrial& trial : try_kernels({*host, *processor}, {*runtime, *kernels}, bf16)) {
      EXPECT_TRUE(trial.right()) << trial.family << ", " << trial.what << ": " << trial.different << " of " << trial.values
                                 << ", distance " << trial.distance << " " << trial.error;
      different += trial.different;
    }
    EXPECT_EQ(different > 0, !widened);
  }
}

TEST(KernelTrials, RatesAreMeasured) {
  const std::unique_ptr<Runtime> runtime = open_runtime({DeviceKind::cuda, 0});
  const std::unique_ptr<Stream> stream = runtime->make_stream();
  const std::unique_ptr<ops::Ops> kernels = ops::make_ops(*runtime, *stream);
  const std::vector<KernelRate> rates = measure_kernels({*runtime, *kernels}, 64);
  EXPECT_EQ(rates.size(), 6U);
  for (const KernelRate& rate : rates) EXPECT_GT(rate.rate, 0) << rate.what;
}

}  // namespace
}  // namespace lockstep::lab
