#include "lab/kernels/kernel_trials.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>

#include "lab/kernels/kernel_call.h"
#include "tensor/bfloat16.h"

namespace lockstep::lab {
namespace {

/// Products of another order are rounded to bf16 at other places, and attention's are made of such.
constexpr double own_order_distance = 0.02;

double value_of(const Tensor& tensor, std::size_t i) {
  switch (tensor.dtype) {
    case DType::f32:
      return elements<float>(tensor)[i];
    case DType::f64:
      return elements<double>(tensor)[i];
    case DType::bf16:
      return to_float(reinterpret_cast<const BFloat16*>(tensor.data)[i]);
    default:
      return static_cast<double>(elements<std::int64_t>(tensor)[i]);
  }
}

void compare(KernelTrial& trial, const Tensor& found, const Tensor& wanted) {
  double largest = 1e-30, difference = 0;
  const std::size_t bytes = size_of(wanted.dtype);
  for (std::size_t i = 0; i < static_cast<std::size_t>(wanted.elements()); ++i) {
    ++trial.values;
    if (std::memcmp(found.data + i * bytes, wanted.data + i * bytes, bytes) == 0) continue;
    ++trial.different;
    const double apart = std::fabs(value_of(found, i) - value_of(wanted, i));
    difference = std::max(difference, std::isfinite(apart) ? apart : std::numeric_limits<double>::infinity());
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(wanted.elements()); ++i)
    largest = std::max(largest, std::fabs(value_of(wanted, i)));
  trial.distance = std::max(trial.distance, difference / largest);
}

KernelTrial try_kernel(const KernelCase& of, DType type, double allowed, const KernelMachine& processor,
                       const KernelMachine& other) {
  KernelTrial trial{.family = of.family, .what = of.what, .type = type, .allowed = allowed};
  KernelCall wanted(processor, type), found(other, type);
  of.run(wanted);
  try {
    of.run(found);
    const std::vector<Tensor> right = wanted.results(), made = found.results();
    for (std::size_t i = 0; i < right.size(); ++i) compare(trial, made[i], right[i]);
  } catch (const std::exception& error) {
    trial.error = error.what();
  }
  return trial;
}

}  // namespace

std::vector<KernelTrial> try_kernels(const KernelMachine& processor, const KernelMachine& other, Bf16Trials bf16,
                                     const std::function<void(const KernelTrial&)>& told) {
  std::vector<KernelTrial> trials;
  const auto add = [&](const KernelCase& of, DType type, double allowed) {
    told(trials.emplace_back(try_kernel(of, type, allowed, processor, other)));
  };
  const bool widened = bf16 == Bf16Trials::widened;
  for (const KernelCase& of : kernel_cases()) {
    if (widened) add(of, DType::f32, 0);
    if (widened || of.multiplies) add(of, DType::bf16, widened ? 0 : own_order_distance);
  }
  return trials;
}

}  // namespace lockstep::lab
