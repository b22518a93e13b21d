#include "lab/kernels/kernel_trials.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>

#include "lab/kernels/kernel_call.h"
#include "tensor/compare.h"

namespace lockstep::lab {
namespace {

/// Products of another order are rounded to bf16 at other places, and attention's are made of such.
constexpr double own_order_distance = 0.02;

void add_up(KernelTrial& trial, const Tensor& found, const Tensor& wanted) {
  double largest = 1e-30;
  const std::size_t bytes = size_of(wanted.dtype);
  for (std::size_t i = 0; i < static_cast<std::size_t>(wanted.elements()); ++i) {
    const std::byte* const right = wanted.data + i * bytes;
    ++trial.values;
    if (std::memcmp(found.data + i * bytes, right, bytes) != 0) ++trial.different;
    largest = std::max(largest, std::fabs(as_double(right, wanted.dtype)));
  }
  trial.distance = std::max(trial.distance, lockstep::compare(found, wanted).max_abs / largest);
}

KernelTrial try_kernel(const KernelCase& of, DType type, double allowed, const KernelMachine& processor,
                       const KernelMachine& other) {
  KernelTrial trial{.family = of.family, .what = of.what, .type = type, .allowed = allowed};
  KernelCall wanted(processor, type), found(other, type);
  of.run(wanted);
  try {
    of.run(found);
    const std::vector<Tensor> right = wanted.results(), made = found.results();
    for (std::size_t i = 0; i < right.size(); ++i) add_up(trial, made[i], right[i]);
  } catch (const std::exception& error) {
    trial.error = error.what();
  }
  return trial;
}

}  // namespace

std::vector<KernelTrial> try_kernels(const KernelMachine& processor, const KernelMachine& other, Bf16Trials bf16) {
  std::vector<KernelTrial> trials;
  const auto add = [&](const KernelCase& of, DType type, double allowed) {
    trials.push_back(try_kernel(of, type, allowed, processor, other));
  };
  const bool widened = bf16 == Bf16Trials::widened;
  for (const KernelCase& of : kernel_cases()) {
    if (widened) add(of, DType::f32, 0);
    if (widened || of.multiplies) add(of, DType::bf16, widened ? 0 : own_order_distance);
  }
  return trials;
}

}  // namespace lockstep::lab
