// device/cuda on an emulated machine: memory, streams, copies, and what it says where a machine lacks something.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <string>
#include <typeinfo>

#include "base/error.h"
#include "cuda/kernels.h"
#include "device/choose_device.h"
#include "device/cuda/check.h"
#include "device/cuda/cuda_runtime.h"
#include "device/cuda/cuda_stream.h"
#include "device/team.h"
#include "emulation/machine.h"

namespace lockstep::emulation {
namespace {

/// The machine says something else for the length of a test.
class CudaRuntime : public testing::Test {
 protected:
  void TearDown() override { machine() = {}; }
  static std::unique_ptr<Runtime> open() { return open_runtime(choose_device("cuda", 0), {.threads = 2}); }
  static std::string refusal() {
    try {
      open();
    } catch (const UserError& error) {
      return error.what();
    }
    return "opened";
  }
  static std::string refusal_of(cudaError_t error, int driver) {
    machine() = {.error = error, .driver = driver};
    EXPECT_EQ(cuda::device_count(), 0);
    return refusal();
  }
};

TEST_F(CudaRuntime, OpensAGpuThatIsNamed) {
  EXPECT_EQ(choose_device("", 0), Device{});
  EXPECT_EQ(cuda::device_count(), 1);
  EXPECT_EQ(choose_device("cuda", 3), (Device{DeviceKind::cuda, 0}));
  const auto runtime = open();
  EXPECT_EQ(runtime->device(), (Device{DeviceKind::cuda, 0}));
  EXPECT_EQ(runtime->team().size(), 2);
  EXPECT_EQ(cuda::facts_of_gpu(0).gpu, "an emulated GPU");
  EXPECT_EQ(runtime->description(), "an emulated GPU, compute capability 9.0, 8.00 GiB");
}

void expect_both(const std::string& text, const std::string& first, const std::string& second) {
  EXPECT_NE(text.find(first), std::string::npos) << text;
  EXPECT_NE(text.find(second), std::string::npos) << text;
}

TEST_F(CudaRuntime, SaysWhatAMachineLacksAndWhatToDo) {
  expect_both(refusal_of(cudaErrorInsufficientDriver, 0), "no NVIDIA driver", "train.device=cpu");
  expect_both(refusal_of(cudaErrorInsufficientDriver, 12020), "knows CUDA up to 12.2, and this program was built with 13.0",
              "a newer driver");
  expect_both(refusal_of(cudaErrorNoDevice, 13000), "no GPU that this process may use", "nvidia-smi");
  expect_both(refusal_of(cudaErrorSystemDriverMismatch, 13000), "different versions", "start the machine again");
  expect_both(refusal_of(cudaErrorLaunchFailure, 13000), "cudaErrorLaunchFailure", "nvidia-smi");
  machine() = {.capability = 75};
  EXPECT_EQ(cuda::device_count(), 0);
  expect_both(refusal(), "need compute capability 8.0, and an emulated GPU has 7.5", "train.device=cpu");
}

TEST_F(CudaRuntime, RefusesANumberThatNoGpuHas) {
  EXPECT_THROW(open_runtime({DeviceKind::cuda, 1}), UserError);
  EXPECT_THROW(open_runtime({DeviceKind::cuda, -1}), UserError);
}

TEST_F(CudaRuntime, SaysWhenThereIsNoMemory) {
  std::size_t free = 0, total = 0;  // other tests' machines may have some of it
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  machine() = {.memory = total - free + (std::size_t{1} << 20)};
  const auto runtime = open();
  const Memory some = runtime->memory().allocate(std::size_t{1} << 19);
  try {
    runtime->memory().allocate(std::size_t{1} << 20);
    ADD_FAILURE() << "more than there is";
  } catch (const SystemError& error) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "no memory: 1.00 MiB are needed in one piece on GPU 0, and 512.00 KiB of its ",
                        error.what());
  }
  EXPECT_THROW(runtime->memory(Space::pinned).allocate(machine().memory + 1), SystemError);
}

TEST_F(CudaRuntime, TellsAProgramWithoutKernelsForTheGpu) {
  EXPECT_THROW(cuda::check(cudaErrorNoKernelImageForDevice, "cudaLaunchKernelEx"), UserError);
  try {
    cuda::check(cudaErrorInvalidValue, "cudaMemcpyAsync");
    ADD_FAILURE() << "an error is none";
  } catch (const SystemError& error) {
    expect_both(error.what(), "cudaMemcpyAsync: ", "cudaErrorInvalidValue");
  }
}

TEST_F(CudaRuntime, MemoryIsZeroedAndAligned) {
  const auto runtime = open();
  const auto stream = runtime->make_stream();
  EXPECT_EQ(runtime->memory().device(), runtime->device());
  EXPECT_TRUE(runtime->memory(Space::pinned).device().is_host());
  EXPECT_EQ(runtime->memory().allocate(0).data(), nullptr);
  for (const Space space : {Space::device, Space::pinned, Space::host}) {
    for (const std::size_t size : {1, 100, 4096, 70000}) {
      const Memory memory = runtime->memory(space).allocate(size);
      EXPECT_EQ(std::bit_cast<std::uintptr_t>(memory.data()) % 64, 0U);
      std::vector<std::byte> read(size, std::byte{1});
      stream->copy(read.data(), memory.data(), size);
      stream->synchronize();
      EXPECT_TRUE(std::ranges::all_of(read, [](std::byte b) { return b == std::byte{0}; }));
    }
  }
}

TEST_F(CudaRuntime, AStreamOfAnotherDeviceHasNoHandle) {
  const auto host = make_immediate_stream();
  EXPECT_THROW(cuda::native(*host), std::bad_cast);
}

__global__ void multiply(float* x, float by) { x[threadIdx.x] *= by; }

/// A GPU with two streams and a number, in whose memory and pinned memory it stands.
struct TwoStreams {
  TwoStreams()
      : runtime(open_runtime({DeviceKind::cuda, 0})),
        first(runtime->make_stream()),
        second(runtime->make_stream()),
        event(first->make_event()),
        memory(runtime->memory().allocate(4)),
        pinned(runtime->memory(Space::pinned).allocate(4)),
        fetched(runtime->memory(Space::pinned).allocate(4)) {}
  float& host() const { return *reinterpret_cast<float*>(pinned.data()); }
  void multiply_on(Stream& stream, float by) const {
    const cudaLaunchConfig_t config{1, 1, 0, cuda::native(stream), nullptr, 0};
    cuda::check(cudaLaunchKernelEx(&config, multiply, reinterpret_cast<float*>(memory.data()), by), "cudaLaunchKernelEx");
  }

  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Stream> first, second;
  std::unique_ptr<Event> event;
  Memory memory, pinned, fetched;
};

/// 3, sent and multiplied by 2 on one stream, then multiplied by 5 and fetched on another.
float result_of(bool recorded) {
  const TwoStreams gpu;
  gpu.host() = 3;
  gpu.first->copy(gpu.memory.data(), gpu.pinned.data(), 4);
  gpu.multiply_on(*gpu.first, 2);
  if (recorded) {
    gpu.first->record(*gpu.event);
    gpu.second->wait(*gpu.event);
  }
  gpu.multiply_on(*gpu.second, 5);
  gpu.second->copy(gpu.fetched.data(), gpu.memory.data(), 4);
  gpu.second->synchronize();
  return *reinterpret_cast<const float*>(gpu.fetched.data());
}

TEST_F(CudaRuntime, EventsOrderStreamsAndNothingElseDoes) {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    set_seed(seed);
    EXPECT_EQ(result_of(true), 30);
    if (!races_are_watched()) wrong += result_of(false) == 30 ? 0 : 1;
  }
  EXPECT_GT(wrong, races_are_watched() ? -1 : 20);
}

TEST_F(CudaRuntime, WhatTheHostReadsTooEarlyIsNoNumber) {
  if (races_are_watched()) GTEST_SKIP() << "ThreadSanitizer would tell it";
  const TwoStreams gpu;
  gpu.multiply_on(*gpu.first, 2);
  gpu.first->copy(gpu.pinned.data(), gpu.memory.data(), 4);
  EXPECT_TRUE(std::isnan(gpu.host()));
  gpu.first->synchronize();
  EXPECT_EQ(gpu.host(), 0);
}

TEST_F(CudaRuntime, MemoryThatTheHostWritesTooEarlyIsTold) {
  const TwoStreams gpu;
  gpu.host() = 3;
  gpu.first->copy(gpu.memory.data(), gpu.pinned.data(), 4);
  gpu.host() = 4;
  EXPECT_THROW(gpu.first->synchronize(), Fault);
  gpu.first->copy(gpu.pinned.data(), gpu.memory.data(), 4);
  gpu.host() = 4;
  EXPECT_THROW(gpu.first->synchronize(), Fault);
}

/// Gives out what is to be repeated, with a factor that the work may not see when it is repeated.
void fetch_multiplied(const TwoStreams& gpu, float by) {
  Stream& stream = *gpu.first;
  const cudaLaunchConfig_t config{1, 1, 0, cuda::native(stream), nullptr, 0};
  if (cuda::gate_of(stream).lets(reinterpret_cast<const void*>(multiply), 1))
    cuda::check(cudaLaunchKernelEx(&config, multiply, reinterpret_cast<float*>(gpu.memory.data()), by), "cudaLaunchKernelEx");
  stream.copy(gpu.fetched.data(), gpu.memory.data(), 4);
}

TEST_F(CudaRuntime, RepeatedWorkIsThatOfTheSecondCall) {
  const TwoStreams gpu;
  Stream& stream = *gpu.first;
  std::unique_ptr<KeptWork> kept;
  const std::uint64_t before = counts().graphs;
  float expected = 1;
  for (const float by : {2.0F, 3.0F, 5.0F, 7.0F}) {
    gpu.host() = 1;
    stream.copy(gpu.memory.data(), gpu.pinned.data(), 4);
    cuda::repeat(cuda::native(stream), cuda::gate_of(stream), kept, [&] { fetch_multiplied(gpu, by); });
    stream.synchronize();
    if (by <= 3) expected = by;  // a graph has the numbers that it was made with
    EXPECT_EQ(*reinterpret_cast<const float*>(gpu.fetched.data()), expected);
  }
  EXPECT_EQ(counts().graphs - before, 3U);
}

TEST_F(CudaRuntime, OtherWorkThanWhatIsRepeatedIsTold) {
  const TwoStreams gpu;
  Stream& stream = *gpu.first;
  std::unique_ptr<KeptWork> kept;
  const auto repeat = [&](const std::function<void()>& issue) {
    cuda::repeat(cuda::native(stream), cuda::gate_of(stream), kept, issue);
  };
  const auto usual = [&] { fetch_multiplied(gpu, 2); };
  for (int call = 0; call < 3; ++call) repeat(usual);
  EXPECT_THROW(repeat([&] { stream.copy(gpu.fetched.data(), gpu.memory.data(), 4); }), BrokenRule);
  EXPECT_THROW(repeat([&] { stream.synchronize(); }), BrokenRule);
  EXPECT_THROW(repeat([&] { stream.record(*gpu.event); }), BrokenRule);
  EXPECT_THROW(repeat([&] { stream.wait(*gpu.event); }), BrokenRule);
  repeat(usual);
  stream.synchronize();
}

TEST_F(CudaRuntime, WorkThatNoGraphCanHaveLeavesTheStreamUsable) {
  const TwoStreams gpu;
  Stream& stream = *gpu.first;
  std::vector<std::byte> pageable(4);
  for (const std::function<void()>& wrong : std::vector<std::function<void()>>{
           [&] { stream.synchronize(); },
           [&] { gpu.runtime->memory().allocate(4); },
           [&] { stream.copy(pageable.data(), gpu.memory.data(), 4); },
       }) {
    std::unique_ptr<KeptWork> kept;
    const auto repeat = [&](const std::function<void()>& issue) {
      cuda::repeat(cuda::native(stream), cuda::gate_of(stream), kept, issue);
    };
    repeat([&] { fetch_multiplied(gpu, 2); });
    EXPECT_ANY_THROW(repeat([&] {
      fetch_multiplied(gpu, 2);
      wrong();
    }));
    stream.synchronize();
    repeat([&] { fetch_multiplied(gpu, 2); });
    stream.synchronize();
  }
}

TEST_F(CudaRuntime, ACopyOutsideOfAnAllocationIsRefused) {
  const TwoStreams gpu;
  std::vector<std::byte> host(80);
  EXPECT_THROW(gpu.first->copy(gpu.memory.data(), host.data(), 80), SystemError);
}

}  // namespace
}  // namespace lockstep::emulation
