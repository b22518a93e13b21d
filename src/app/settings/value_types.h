#pragma once

// Types of settings that are words or texts of a form, where no lower layer has a type for them. Their words stand in
// app/settings/choices.

#include <cstdint>
#include <string>
#include <vector>

#include "arch/config.h"
#include "base/dtype.h"

namespace lockstep::app {

/// Who shares out work and state (train.backend); settings/backends says what each stands for.
enum class BackendKind : std::uint8_t { ddp, fsdp, zero1, zero2, zero3, deepspeed, ds, ps };
/// What a resume on another number of ranks does with the global batch.
enum class GlobalBatch : std::uint8_t { keep, renew };
enum class EpochEnd : std::uint8_t { drop, pad };
/// Whether every rank draws from the whole text, or from a file of its own.
enum class DataShards : std::uint8_t { global, precut };
enum class DataIo : std::uint8_t { files, mpi, readers };
enum class LrScaling : std::uint8_t { none, sqrt, linear };
enum class CopiesTo : std::uint8_t { none, neighbour };
enum class WandbMode : std::uint8_t { off, offline };

enum class MaskKernel : std::uint8_t { computed, stored };
enum class ProductKernel : std::uint8_t { best, plain };
enum class AdamWKernel : std::uint8_t { fused, tensor };
enum class NormKernel : std::uint8_t { fused, plain };
enum class AttentionKernel : std::uint8_t { tiled, materialised };

/// A type of weights as the user spelt it: settings are printed as they were given.
struct SpeltDType {
  DType type = DType::f32;
  bool brief = false;  ///< "bf16" rather than "bfloat16"
  bool operator==(const SpeltDType&) const = default;
};

/// model.activation: swiglu is silu with a gate, geglu gelu_tanh with one.
struct Activation {
  arch::ActivationKind kind = arch::ActivationKind::gelu;
  bool gated = false;
  bool operator==(const Activation&) const = default;
};

/// adapter.targets.
struct Targets {
  arch::AdapterTargets set = arch::all_targets;
  bool operator==(const Targets&) const = default;
};

/// model.rope_short_factors: numbers with commas between.
struct Factors {
  std::vector<double> values;
  bool operator==(const Factors&) const = default;
};

/// train.init_from: what a run starts with.
struct InitFrom {
  enum class Kind : std::uint8_t {
    scratch,    ///< drawn weights
    resume,     ///< the run in its folder goes on
    automatic,  ///< "auto": resume where there is a run, else scratch
    folder      ///< weights of the folder `text`
  } kind = Kind::scratch;
  std::string text = "scratch";
  bool operator==(const InitFrom&) const = default;
};

/// sample.every: "evaluations", or "epochs:N".
struct SampleEvery {
  std::int64_t epochs = 0;  ///< a text after the first epoch and after every so many from it; 0: with each evaluation
  bool operator==(const SampleEvery&) const = default;
};

/// "4GiB", as the user spelt it.
struct ByteCount {
  std::uint64_t bytes = 0;
  std::string text;
  bool operator==(const ByteCount&) const = default;
};

}  // namespace lockstep::app
