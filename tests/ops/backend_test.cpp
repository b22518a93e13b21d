#include "ops/cpu/backend.h"

#include <gtest/gtest.h>

#include "device/cuda/cuda_runtime.h"
#include "device/team.h"
#include "ops/cpu/context.h"
#include "support/ops.h"

namespace lockstep::test {
namespace {

/// A device that this build has no kernels for.
class OtherRuntime final : public Runtime {
 public:
  Device device() const override { return {DeviceKind::cuda, 0}; }
  std::unique_ptr<Stream> make_stream() override { return nullptr; }
  Team& team() override { return team_; }
  std::string description() const override { return "another device"; }

 private:
  MemorySource& source(Space /*space*/) override { return host_memory(); }

  Team team_{1};
};

TEST(Backend, IsMadeForTheDeviceOfItsRuntime) {
  const auto runtime = open_runtime(Device{}, {1});
  const auto stream = runtime->make_stream();
  EXPECT_NE(ops::make_ops(*runtime, *stream), nullptr);
  if (cuda::is_built()) GTEST_SKIP() << "this build has kernels of every device";
  OtherRuntime other;
  EXPECT_THROW(ops::make_ops(other, *stream), UserError);
}

TEST(Backend, ReportsWhatItHoldsAndNeverMore) {
  for (const auto& machine : machines()) {
    const std::int64_t before = machine->ops->workspace_bytes();
    EXPECT_GE(before, static_cast<std::int64_t>(ops::cpu::Context::workspace_size));
    const HostTensor x = HostTensor::random({1000, 64}, 1);
    std::vector<std::int32_t> ids = random_ids(1000, 0, 50, 2);
    HostTensor table({50, 64});
    machine->ops->embedding().backward_tokens(table, x, ids_tensor(ids));
    EXPECT_EQ(machine->ops->workspace_bytes(), before);
  }
  EXPECT_EQ(ops::make_reference_ops()->workspace_bytes(), 0);
}

TEST(Backend, OpsLetProgressHappen) {
  const auto runtime = open_runtime(Device{}, {2});
  const auto stream = runtime->make_stream();
  int calls = 0;
  stream->add_progress([&] { ++calls; });
  const auto ops = ops::make_ops(*runtime, *stream);
  const HostTensor x({100});
  ops->elementwise().fill(x, 1);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace lockstep::test
