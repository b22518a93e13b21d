#pragma once

// Parts that tests of kernels share: tensors on the heap with numbers in them, and a comparison. It compares every backend of
// this machine with the reference and with each other.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "device/runtime.h"
#include "ops/open_ops.h"
#include "reference/families.h"
#include "support/largest.h"
#include "tensor/bfloat16.h"

namespace lockstep::test {

/// An f32 or bf16 tensor that owns its elements; copies are deep.
class HostTensor {
 public:
  HostTensor() = default;
  explicit HostTensor(Shape shape, DType type = DType::f32) : values_(static_cast<std::size_t>(shape.elements())), shape_(shape) {
    if (type == DType::bf16) halves_.resize(values_.size());
  }

  /// Numbers between -size and size that depend on `seed` only.
  static HostTensor random(Shape shape, std::uint32_t seed, float size = 1) {
    HostTensor result(shape);
    std::mt19937 engine(seed);
    for (float& x : result.values_) x = size * (static_cast<float>(engine()) * 0x1p-31F - 1);
    return result;
  }
  static HostTensor filled(Shape shape, float value) {
    HostTensor result(shape);
    result.values_.assign(result.values_.size(), value);
    return result;
  }

  /// The same numbers, rounded to `type`.
  HostTensor as(DType type) const {
    HostTensor result(shape_, type);
    result.values_ = values();
    for (std::size_t i = 0; i < result.halves_.size(); ++i) result.halves_[i] = to_bfloat16(result.values_[i]);
    return result;
  }

  DType type() const { return halves_.empty() ? DType::f32 : DType::bf16; }
  Tensor tensor() const {
    Tensor result;
    result.data = halves_.empty() ? reinterpret_cast<std::byte*>(const_cast<float*>(values_.data()))
                                  : reinterpret_cast<std::byte*>(const_cast<BFloat16*>(halves_.data()));
    result.shape = shape_;
    result.dtype = type();
    return result;
  }
  operator Tensor() const { return tensor(); }  // NOLINT(google-explicit-constructor)
  /// The numbers. A bf16 tensor gives a copy of them, so change numbers before as().
  std::vector<float>& values() {
    read_halves();
    return values_;
  }
  const std::vector<float>& values() const {
    read_halves();
    return values_;
  }
  float& operator[](std::size_t i) { return values()[i]; }
  float operator[](std::size_t i) const { return values()[i]; }

 private:
  void read_halves() const {
    for (std::size_t i = 0; i < halves_.size(); ++i) values_[i] = to_float(halves_[i]);
  }

  mutable std::vector<float> values_;
  std::vector<BFloat16> halves_;  // empty: f32
  Shape shape_;
};

/// The types in which weights and activations are stored.
inline const auto storage_types = testing::Values(DType::f32, DType::bf16);

/// A view of ids.
inline Tensor ids_tensor(std::vector<std::int32_t>& ids) {
  Tensor result;
  result.data = reinterpret_cast<std::byte*>(ids.data());
  result.shape = Shape{std::ssize(ids)};
  result.dtype = DType::i32;
  return result;
}

/// A view of one number, where sums go.
inline Tensor number_tensor(double& number) { return view(std::span(&number, 1), Shape{1}); }

/// Ids in [first, last) that depend on `seed` only.
inline std::vector<std::int32_t> random_ids(std::size_t count, std::int32_t first, std::int32_t last, std::uint32_t seed) {
  std::vector<std::int32_t> ids(count);
  std::mt19937 engine(seed);
  for (std::int32_t& id : ids) id = first + static_cast<std::int32_t>(engine() % static_cast<std::uint32_t>(last - first));
  return ids;
}

/// The rows that have these positions, of samples of `length` rows each.
inline std::vector<std::int64_t> rows_at(std::int64_t samples, std::int64_t length, const ops::Positions& positions) {
  std::vector<std::int64_t> rows;
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    for (std::int64_t i = 0; i < positions.count(); ++i) rows.push_back(sample * length + positions.at(i));
  }
  return rows;
}

/// A copy of the rows that have these positions.
inline HostTensor rows_of(const HostTensor& whole, std::int64_t length, const ops::Positions& positions) {
  const Tensor from = whole;
  const std::vector<std::int64_t> rows = rows_at(from.rows() / length, length, positions);
  HostTensor result({std::ssize(rows), from.columns()}, whole.type());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Tensor row = from.slice_rows(rows[i], 1);
    std::memcpy(result.tensor().slice_rows(static_cast<std::int64_t>(i), 1).data, row.data, row.bytes());
  }
  return result;
}

/// From a bf16 number to the next one.
inline double bf16_step(float x) { return x == 0 ? 0x1p-133 : std::ldexp(1.0, std::max(std::ilogb(x), -126) - 7); }

/// Largest difference, in units of the largest value of `b` (at least 1e-30); infinite where a value is not finite. For bf16 one
/// step is forgiven: where the exact value lies near the middle between two bf16 numbers, either may be stored.
inline double distance(const std::vector<float>& a, const std::vector<float>& b, DType type = DType::f32) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 1e-30;
  support::Largest difference;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return INFINITY;
    largest = std::max<double>(largest, std::fabs(b[i]));
    difference.take(std::fabs(a[i] - b[i]) - (type == DType::bf16 ? bf16_step(b[i]) : 0));
  }
  return difference.value() / largest;
}

/// How many elements differ in their bits.
inline std::size_t different_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::max(a.size(), b.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    count += std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]) ? 1 : 0;
  }
  return count;
}

/// The CPU's kernels of one instruction set on a team of their own, or those of another device, which take host tensors too
/// (support/staged_families.h).
struct Machine {
  explicit Machine(ops::Isa which, int threads, ops::Bf16Order bf16 = ops::Bf16Order::automatic)
      : isa(which),
        name(std::string(ops::name_of(which)) + ", " + std::to_string(threads) + " threads"),
        runtime(open_runtime(Device{}, {threads})),
        stream(runtime->make_stream()),
        ops(ops::make_ops(*runtime, *stream, {.cpu = {.isa = which, .bf16 = bf16}})) {}
  Machine(std::string what, std::unique_ptr<Runtime> device, std::unique_ptr<Stream> work, std::unique_ptr<ops::Ops> kernels)
      : isa(ops::Isa::automatic),
        name(std::move(what)),
        runtime(std::move(device)),
        stream(std::move(work)),
        ops(std::move(kernels)) {}
  ops::Isa isa;  ///< automatic: another device's
  std::string name;
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<ops::Ops> ops;
};

/// Machines that are compared with the CPU beside its own instruction sets. tests/ops/other_machines.cpp returns none; a test
/// program that has some defines the function again.
std::vector<std::unique_ptr<Machine>> other_machines();

/// Machines for every instruction set of this computer, with 1, 2, 3 and 4 threads each. Where other_machines() has some, they
/// are the best instruction set and the others. All have the order of additions of f32, in bf16 too.
inline std::vector<std::unique_ptr<Machine>>& machines() {
  static std::vector<std::unique_ptr<Machine>> all = [] {
    std::vector<std::unique_ptr<Machine>> made = other_machines();
    if (!made.empty()) {
      made.insert(made.begin(), std::make_unique<Machine>(ops::available_isas().front(), 1, ops::Bf16Order::widened));
      return made;
    }
    for (const ops::Isa isa : ops::available_isas()) {
      for (int threads = 1; threads <= 4; ++threads) made.push_back(std::make_unique<Machine>(isa, threads));
    }
    return made;
  }();
  return all;
}

/// One machine of each instruction set, and all other machines, for tests that take a machine as parameter.
inline std::vector<Machine*> machine_kinds() {
  std::vector<Machine*> kinds;
  for (const auto& machine : machines()) {
    if (machine->isa == ops::Isa::automatic || kinds.empty() || kinds.back()->isa != machine->isa) kinds.push_back(machine.get());
  }
  return kinds;
}
/// The machine's name in that of a test with parameters.
inline std::string kind_name(const Machine* machine) {
  return machine->isa == ops::Isa::automatic ? "device" : std::string(ops::name_of(machine->isa));
}

/// What a kernel made, as numbers.
using Results = std::vector<HostTensor>;

/// Runs `run` on the reference and on every machine. Results must lie within `tolerance` of the reference, measured by
/// distance(). They must have equal bits for any number of threads and on any instruction set. The baseline, which has no fused
/// multiply-add, has bits of its own.
inline void compare_everywhere(const std::function<Results(ops::Ops&)>& run, double tolerance) {
  const std::unique_ptr<ops::Ops> reference = ops::make_reference_ops();
  const Results expected = run(*reference);
  Results fused, baseline;
  for (const auto& machine : machines()) {
    SCOPED_TRACE(machine->name);
    const Results results = run(*machine->ops);
    ASSERT_EQ(results.size(), expected.size());
    Results& twins = machine->isa == ops::Isa::baseline ? baseline : fused;
    if (twins.empty()) twins = results;
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(results[i].type(), expected[i].type());
      EXPECT_LE(distance(results[i].values(), expected[i].values(), expected[i].type()), tolerance) << "result " << i;
      EXPECT_EQ(different_bits(results[i].values(), twins[i].values()), 0U) << "result " << i;
    }
  }
}

/// The gradient of f at x by central differences, in double; f reads x.
inline std::vector<double> finite_differences(HostTensor& x, const std::function<double()>& f, float step) {
  std::vector<double> gradient(x.values().size());
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const float before = x[i];
    x[i] = before + step;
    const double high = f(), above = x[i];
    x[i] = before - step;
    const double low = f(), below = x[i];
    x[i] = before;
    gradient[i] = (high - low) / (above - below);
  }
  return gradient;
}

/// Sum of a[i] * b[i]: makes a number of a result, whose gradient is b.
inline double inner(const HostTensor& a, const HostTensor& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.values().size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

/// `gradient` is what central differences of f say, within `tolerance` of its largest element.
inline void expect_gradient(const HostTensor& gradient, HostTensor& x, const std::function<double()>& f, float step,
                            double tolerance) {
  const std::vector<double> numeric = finite_differences(x, f, step);
  std::vector<float> expected(numeric.begin(), numeric.end());
  EXPECT_LE(distance(gradient.values(), expected), tolerance);
}

}  // namespace lockstep::test
