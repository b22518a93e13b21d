#pragma once

// The tensors of one case on one device. Their values are the same on every device.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "lab/kernels/kernel_trials.h"
#include "ops/step_scalars.h"
#include "tensor/mirror.h"

namespace lockstep::lab {

class KernelCall {
 public:
  KernelCall(const KernelMachine& machine, DType type) : machine_(machine), type_(type) {}
  ops::Ops& ops() const { return machine_.ops; }
  DType type() const { return type_; }

  /// Numbers between -size and size, in the case's type or in another.
  Tensor random(const Shape& shape, float size = 1) { return random(shape, size, type_); }
  Tensor random(const Shape& shape, float size, DType type);
  /// Ids in [0, end).
  Tensor ids(std::int64_t count, std::int64_t end);
  Tensor whole(const std::vector<std::int32_t>& numbers);
  Tensor number(float value);
  /// Zeros, for results and workspace.
  Tensor zeros(const Shape& shape) { return zeros(shape, type_); }
  Tensor zeros(const Shape& shape, DType type) { return make(shape, type).device; }
  /// The scalars of a step, where an update reads them.
  ops::StepScalars step();
  /// Registers a tensor that is compared once the case is done.
  Tensor result(const Tensor& tensor);

  /// The registered tensors, each copied to the host after all issued work.
  std::vector<Tensor> results();

 private:
  struct Held {
    Memory device, host;
    Mirror mirror;
  };
  Mirror make(const Shape& shape, DType type);
  Tensor brought(const Mirror& mirror);

  const KernelMachine& machine_;
  DType type_;
  std::uint64_t drawn_ = 0;
  std::vector<Held> held_;
  std::vector<std::byte*> results_;
};

struct KernelCase {
  const char *family, *what;
  void (*run)(KernelCall& call);
  bool multiplies = false;  ///< whether it makes products, whose order of additions in bf16 may be the device's own
};
const std::vector<KernelCase>& kernel_cases();

}  // namespace lockstep::lab
