#pragma once

// All kernel families of one device, bound to one stream. The public functions of a family check shapes and types
// (BrokenRule), then call the private virtual ones.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/runtime.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/rotary.h"
#include "ops/update.h"

namespace lockstep::ops {

class Ops {
 public:
  virtual ~Ops() = default;
  virtual Linear& linear() = 0;
  virtual Norm& norm() = 0;      ///< LayerNorm
  virtual Norm& rms_norm() = 0;  ///< RMSNorm: stats' mean is 0
  virtual Attention& attention() = 0;
  virtual Rotary& rotary() = 0;
  virtual Activations& activation() = 0;
  virtual Embedding& embedding() = 0;
  virtual Dropout& dropout() = 0;
  virtual Loss& loss() = 0;
  virtual Elementwise& elementwise() = 0;
  virtual Reduce& reduce() = 0;
  virtual Update& update() = 0;
  /// What the kernels are issued on: copies of what they read and write go there too.
  virtual Stream& stream() = 0;
  /// Bytes this backend holds for packing and partial sums, on top of every arena: fixed at construction and by take_sum_grids().
  virtual std::int64_t workspace_bytes() const = 0;
  /// From now on products and bias gradients may be summed by ranges (ops/sum_grid.h), which takes more workspace; once is
  /// enough.
  virtual void take_sum_grids() = 0;
};

/// The instruction set of the CPU's kernels; a machine that has one has those before it.
enum class Isa : std::uint8_t { automatic, baseline, avx2, avx512, avx512_bf16 };
std::string_view name_of(Isa isa);
/// Throws UserError for an unknown name.
Isa isa_from_name(std::string_view name);
/// What this machine can run, best first; never empty (baseline: x86-64-v2).
std::vector<Isa> available_isas();

/// Who computes the products of layers: our own kernels, whose order of additions is fixed, or a library (oneDNN), whose bits
/// may depend on shapes, slices, threads and the processor.
enum class Products : std::uint8_t { ours, library };
/// Throws UserError for an unknown name.
Products products_from_name(std::string_view name);
/// What the library is, for the log; empty when this build has none or it lacks products of this type on this processor.
std::string library_for(DType type);

/// How a product of two bf16 operands adds (numerics.md section 4.1); every processor can do either.
enum class Bf16Order : std::uint8_t {
  automatic,       ///< usual_bf16_order()
  widened,         ///< the order of fp32
  pairs,           ///< that of AVX-512-bf16: by its instruction, or slowly without
  emulated_pairs,  ///< the same bits, always without it: for tests
};
/// As settings spell it.
std::string_view name_of(Bf16Order order);
/// Throws UserError for a name that is none of auto, widened and pairs.
Bf16Order bf16_order_from_name(std::string_view name);
/// What automatic is on a processor, never by a measurement: pairs where they are multiplied at twice the rate of fp32, on AMD's
/// with the instruction; widened on all others (on Intel's the instruction has half of fp32's rate), unknown ones included.
Bf16Order bf16_order_for(bool of_amd, bool has_instruction);
/// Of this processor.
Bf16Order usual_bf16_order();
/// Whether this processor has the instruction.
bool multiplies_bf16_pairs();

/// Where the CPU's kernels have a plain way beside the usual one, with the same bits: what each is worth is measured, not
/// believed (docs/performance.md).
struct PlainKernels {
  bool products = false;   ///< of layers, as plain loops; of bf16 operands in the order of fp32 alone
  bool epilogues = false;  ///< what is done with a product is a pass of its own behind it
  bool norm = false;       ///< operation by operation, each a pass over all rows
  bool adamw = false;      ///< likewise over a tensor; of f32 weights and moments alone
  friend bool operator==(const PlainKernels&, const PlainKernels&) = default;
};

struct OpsOptions {
  Isa isa = Isa::automatic;            ///< automatic: the best there is. Throws UserError when the machine lacks the one named.
  Products products = Products::ours;  ///< Throws UserError for a library that this build does not have.
  Bf16Order bf16 = Bf16Order::automatic;
  PlainKernels plain = {};
  OpObserver* observer = nullptr;  ///< is told of every op; outlives the Ops
};

/// The fast backend of the runtime's device; `runtime` and `stream` must outlive it.
std::unique_ptr<Ops> make_ops(Runtime& runtime, Stream& stream, const OpsOptions& options = {});
/// Plain loops in double on host memory: the slow, obvious twin of every kernel.
std::unique_ptr<Ops> make_reference_ops(OpObserver* observer = nullptr);

}  // namespace lockstep::ops
