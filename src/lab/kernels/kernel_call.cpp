#include "lab/kernels/kernel_call.h"

#include <algorithm>

#include "tensor/bfloat16.h"

namespace lockstep::lab {
namespace {

Tensor at(std::byte* data, const Shape& shape, DType type) {
  Tensor tensor;
  tensor.data = data;
  tensor.shape = shape;
  tensor.dtype = type;
  return tensor;
}

}  // namespace

Mirror KernelCall::make(const Shape& shape, DType type) {
  const auto bytes = static_cast<std::size_t>(shape.elements()) * size_of(type);
  Held& held = held_.emplace_back(machine_.runtime.memory().allocate(bytes),
                                  machine_.runtime.memory(Space::pinned).allocate(bytes), Mirror{});
  held.mirror = {at(held.device.data(), shape, type), at(held.host.data(), shape, type)};
  return held.mirror;
}

Tensor KernelCall::brought(const Mirror& mirror) {
  upload(machine_.ops.stream(), mirror);
  return mirror.device;
}

Tensor KernelCall::random(const Shape& shape, float size, DType type) {
  const Mirror mirror = make(shape, type);
  const CounterRng rng(++drawn_, "kernel trial");
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    const auto value = static_cast<float>(size * (2 * rng.uniform(static_cast<std::uint64_t>(i)) - 1));
    const auto place = static_cast<std::size_t>(i);
    type == DType::f32 ? void(elements<float>(mirror.host)[place] = value)
                       : void(reinterpret_cast<BFloat16*>(mirror.host.data)[place] = to_bfloat16(value));
  }
  return brought(mirror);
}

Tensor KernelCall::whole(const std::vector<std::int32_t>& numbers) {
  const Mirror mirror = make(Shape{std::ssize(numbers)}, DType::i32);
  std::ranges::copy(numbers, elements<std::int32_t>(mirror.host).begin());
  return brought(mirror);
}

Tensor KernelCall::ids(std::int64_t count, std::int64_t end) {
  const CounterRng rng(++drawn_, "kernel trial");
  std::vector<std::int32_t> numbers;
  for (std::int64_t i = 0; i < count; ++i)
    numbers.push_back(static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(end), static_cast<std::uint64_t>(i))));
  return whole(numbers);
}

Tensor KernelCall::number(float value) {
  const Mirror mirror = make(Shape{1}, DType::f32);
  elements<float>(mirror.host)[0] = value;
  return brought(mirror);
}

ops::StepScalars KernelCall::step() {
  const Mirror mirror = make(Shape{ops::StepScalars::count}, DType::f32);
  const std::span<float> values = elements<float>(mirror.host);
  values[ops::StepScalars::learning_rate] = 0.013F;
  values[ops::StepScalars::bias_correction1] = 0.271F;
  values[ops::StepScalars::bias_correction2] = 0.143F;
  values[ops::StepScalars::clip_factor] = 0.7F;
  values[ops::StepScalars::loss_scale] = 0.01F;
  values[ops::StepScalars::finite] = 1;
  return {brought(mirror)};
}

Tensor KernelCall::result(const Tensor& tensor) {
  results_.push_back(tensor.data);
  return tensor;
}

std::vector<Tensor> KernelCall::results() {
  std::vector<Tensor> all;
  for (std::byte* const data : results_) {
    const auto held = std::ranges::find(held_, data, [](const Held& each) { return each.mirror.device.data; });
    ensure(held != held_.end(), "a result is one of the case's tensors");
    download(machine_.ops.stream(), held->mirror);
    all.push_back(held->mirror.host);
  }
  return all;
}

}  // namespace lockstep::lab
