#pragma once

// What tests of the emulation share: device memory with numbers in it, and a launch that is waited for.

#include <gtest/gtest.h>

#include <vector>

#include "cuda_runtime.h"
#include "emulation/emulation.h"

namespace lockstep::emulation {

/// Numbers in device memory.
template <class T>
class DeviceNumbers {
 public:
  explicit DeviceNumbers(const std::vector<T>& numbers) : count_(numbers.size()) {
    void* data = nullptr;
    EXPECT_EQ(cudaMalloc(&data, numbers.size() * sizeof(T)), cudaSuccess);
    data_ = static_cast<T*>(data);
    cudaMemcpyAsync(data_, numbers.data(), numbers.size() * sizeof(T), cudaMemcpyDefault, nullptr);
    cudaStreamSynchronize(nullptr);
  }
  ~DeviceNumbers() { cudaFree(data_); }
  DeviceNumbers(const DeviceNumbers&) = delete;
  DeviceNumbers& operator=(const DeviceNumbers&) = delete;

  T* data() const { return data_; }
  /// Reads the numbers. Waits for the default stream first.
  std::vector<T> read() const {
    std::vector<T> numbers(count_);
    cudaMemcpyAsync(numbers.data(), data_, count_ * sizeof(T), cudaMemcpyDefault, nullptr);
    cudaStreamSynchronize(nullptr);
    return numbers;
  }

 private:
  std::size_t count_;
  T* data_ = nullptr;
};

/// Runs the kernel to its end. Throws Fault where it breaks a rule.
template <class... Parameters, class... Arguments>
void run(dim3 grid, dim3 block, std::size_t shared_bytes, void (*kernel)(Parameters...), Arguments... arguments) {
  const cudaLaunchConfig_t config{grid, block, shared_bytes, nullptr, nullptr, 0};
  ASSERT_EQ(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), cudaSuccess);
  cudaStreamSynchronize(nullptr);
}

}  // namespace lockstep::emulation
