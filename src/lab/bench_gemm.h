#pragma once

// Compares our products with those of oneDNN and OpenBLAS on the shapes of real models, in interleaved rounds. A shared machine's
// speed changes from one moment to the next. So the multiply-add rate is measured next to every sample, and figures are compared
// as shares of that rate.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/text/answer.h"
#include "device/runtime.h"
#include "lab/rivals.h"
#include "lab/step/step_shapes.h"
#include "ops/cpu/options.h"
#include "ops/cpu/product/product.h"
#include "ops/ops.h"

namespace lockstep::lab {

enum class ProductKind : std::uint8_t { forward, backward_input, backward_weight };
std::string_view name_of(ProductKind kind);

/// Seconds of one call; 0: not measured.
struct Timing {
  double median = 0, best = 0;
  double room = 0;  ///< multiply-add FLOPs that fit into a call's time at the rate measured beside it: the median
};

struct GemmRow {
  std::string model;
  LayerShape shape;
  ProductKind kind;
  Timing ours, onednn, openblas;
  Timing ours_f32 = {};     ///< the same product in f32, where `ours` is bf16
  Timing other_order = {};  ///< the same in bf16 in the other order of additions, where the processor can
  double flops() const;
  /// The share of the multiply-add rate that `timing` reached; 0 when it was not measured.
  double share(const Timing& timing) const;
  /// The timing of the faster library, by room.
  Timing library() const;
  /// The fastest timing of all, by room; floors are made of it.
  Timing fastest() const;
};

struct GemmBenchOptions {
  std::vector<std::string> models = {"tiny", "char-12x64", "char", "gpt2:4x64", "gpt2:1x1024"};
  int rounds = 7;
  double sample_seconds = 0.02;  ///< a sample repeats the call for this long
  bool rivals = true;            ///< false: ours only
  ops::PlainKernels plain = {};  ///< for our products
  ops::Isa isa = ops::Isa::automatic;
  DType type = DType::f32;  ///< or bf16, which is measured beside our own f32 too
};

struct GemmReport {
  std::vector<GemmRow> rows;
  std::vector<std::string> contenders;  ///< names and versions
  std::vector<std::string> notes;       ///< what makes the figures unfair, if anything
  int threads = 0;
  DType type = DType::f32;
  ops::Bf16Order order = ops::Bf16Order::automatic;  ///< the order of additions of `ours` in bf16 on this processor

  /// Geometric mean of ours in bf16 over the other order's time, by room; 0 where that was not measured.
  double mean_of_other_order() const;
  /// Geometric mean of our f32's time over ours in bf16, by room; 0 in f32.
  double mean_against_f32() const;
  /// Geometric mean of library time over ours, by room; 0 without libraries.
  double geometric_mean() const;
  /// The least ratio of library time over ours, by room.
  double worst_ratio() const;
  /// The lines behind the table: a step's products of each model, and the means.
  std::string summary() const;
};
Answer answer_of(const GemmReport& report);

/// The order of bf16 products that is measured beside the one that this processor takes.
ops::Bf16Order other_than(ops::Bf16Order taken);
/// A note where the `other` order of bf16 products is clearly faster than `taken`, the order that this processor uses. `gain` is
/// the ratio of their times. Empty: there is nothing to note.
std::string order_note(ops::Bf16Order taken, double gain);
/// The time of the taken order over that of the other order, for one product of a layer's size. 0 where the processor has no
/// instruction for the other order. Takes a moment.
double gain_of_other_order(Runtime& runtime);

/// Measures products on one runtime; holds buffers for the largest shape it was asked for.
class GemmBench {
 public:
  /// `runtime` must outlive it.
  GemmBench(Runtime& runtime, const GemmBenchOptions& options);
  GemmRow measure(std::string model, const LayerShape& shape, ProductKind kind);
  /// Times one product [m, k] x [k, n] for each of `count` heads, each computed by one worker. Seconds are of all our products
  /// together.
  Timing measure_heads(std::int64_t count, std::int64_t m, std::int64_t n, std::int64_t k, bool b_transposed);
  /// Times all products of these layers one after the other, each as often as a step runs it. Seconds are of all our products
  /// together.
  Timing measure_together(const std::vector<LayerShape>& layers);
  std::vector<std::string> contenders() const;
  /// What holds a rival back on this machine; empty: nothing.
  std::vector<std::string> notes() const;

 private:
  using Call = std::function<void()>;
  struct Contender {
    Call call = {};
    bool rival = false;  // it has threads of its own
  };
  std::vector<Timing> race(const std::vector<Contender>& contenders) const;
  void sample(const Contender& contender, std::vector<double>& seconds, std::vector<double>& room) const;
  void reserve(std::size_t a, std::size_t b, std::size_t c);
  Call our_call(ops::Ops& ops, const LayerShape& shape, ProductKind kind, DType type);

  Runtime& runtime_;
  GemmBenchOptions options_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<ops::Ops> ops_, other_ops_;  // other: with the other order of bf16 products; null: not measured
  ops::cpu::Product product_;
  std::unique_ptr<Rival> onednn_, openblas_;
  Memory a_, b_, c_;
};

/// Measures every layer of the models in three directions. `progress` (may be empty) is called with each row when it is measured.
GemmReport bench_gemm(Runtime& runtime, const GemmBenchOptions& options,
                      const std::function<void(const GemmRow&)>& progress = {});

}  // namespace lockstep::lab
