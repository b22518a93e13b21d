#include "lab/kernels/kernel_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "lab/kernels/kernel_call.h"

namespace lockstep::lab {
namespace {

/// Seconds of one call: the median of five samples of some calls each, behind one that warms up.
double seconds_of(Stream& stream, const std::function<void()>& call) {
  constexpr int samples = 5, calls = 4;
  call();
  std::vector<double> seconds;
  for (int i = 0; i < samples; ++i) {
    stream.synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int j = 0; j < calls; ++j) call();
    stream.synchronize();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls);
  }
  std::ranges::nth_element(seconds, seconds.begin() + samples / 2);
  return seconds[samples / 2];
}

KernelRate product(const KernelMachine& machine, DType type, std::int64_t size) {
  KernelCall call(machine, type);
  const Tensor y = call.zeros({size, size}), x = call.zeros({size, size}), w = call.zeros({size, size});
  const double seconds = seconds_of(machine.ops.stream(), [&] { machine.ops.linear().forward(y, x, w); });
  const auto n = static_cast<double>(size);
  return {fmt::format("product, {0} x {0} x {0}", size), type, 2 * n * n * n / seconds};
}

KernelRate attention(const KernelMachine& machine, DType type, std::int64_t positions) {
  constexpr std::int64_t samples = 2, heads = 16, size = 64;
  KernelCall call(machine, type);
  const Shape rows{samples * positions, heads * size};
  const Tensor o = call.zeros(rows), q = call.zeros(rows), k = call.zeros(rows), v = call.zeros(rows);
  const ops::AttentionShape shape{.samples = samples,
                                  .queries = positions,
                                  .keys = positions,
                                  .key_rows = positions,
                                  .heads = heads,
                                  .kv_heads = heads,
                                  .head_size = size};
  const double seconds = seconds_of(machine.ops.stream(), [&] {
    machine.ops.attention().forward({.o = o, .lse = {}, .q = q, .k = k, .v = v, .shape = shape});
  });
  const auto t = static_cast<double>(positions);
  return {fmt::format("attention forward, {} positions", positions), type, 2.0 * samples * heads * size * t * t / seconds};
}

KernelRate sum(const KernelMachine& machine, DType type, std::int64_t elements) {
  KernelCall call(machine, type);
  const Tensor y = call.zeros({elements}), x = call.zeros({elements});
  const double seconds = seconds_of(machine.ops.stream(), [&] { machine.ops.elementwise().add(y, x); });
  const auto bytes = static_cast<double>(3 * elements * static_cast<std::int64_t>(size_of(type)));
  return {fmt::format("y += x, {} M elements", elements >> 20), type, bytes / seconds, false};
}

}  // namespace

std::vector<KernelRate> measure_kernels(const KernelMachine& machine, std::int64_t divisor) {
  std::vector<KernelRate> rates;
  for (const DType type : {DType::f32, DType::bf16}) {
    rates.push_back(product(machine, type, 4096 / divisor));
    rates.push_back(attention(machine, type, 2048 / divisor));
    rates.push_back(sum(machine, type, (std::int64_t{1} << 26) / (divisor * divisor)));
  }
  return rates;
}

}  // namespace lockstep::lab
