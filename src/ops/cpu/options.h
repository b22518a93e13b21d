#pragma once

// Options of the CPU's kernels, and what this processor offers for them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace lockstep::ops {

/// The instruction set of the CPU's kernels. An x86-64 processor that has one has those before it; an aarch64 processor has neon
/// alone.
enum class Isa : std::uint8_t { automatic, baseline, avx2, avx512, avx512_bf16, amx, neon };
std::string_view name_of(Isa isa);
/// Throws UserError for an unknown name.
Isa isa_from_name(std::string_view name);
/// What this machine can run, best first; never empty (baseline: x86-64-v2).
std::vector<Isa> available_isas();
/// `isa` itself, or the best of this machine for Isa::automatic. Throws UserError when the machine lacks the one named.
Isa resolve(Isa isa);

/// Who computes the products of layers. Our own kernels have a fixed order of additions. The bits of a library (oneDNN) may
/// depend on shapes, slices, threads and the processor.
enum class Products : std::uint8_t { ours, library };
/// The library's name and version, for the log. Empty when it lacks products of this type on this processor. Throws UserError
/// when the machine lacks the library.
std::string library_for(DType type);

/// How a product of two bf16 operands adds (numerics.md section 4.1); every processor can do each.
enum class Bf16Order : std::uint8_t {
  automatic,  ///< usual_bf16_order()
  widened,    ///< the order of fp32
  pairs,      ///< AVX-512-bf16's order: by its instruction or, without it, slowly
  amx,        ///< AMX's order: by its instruction or, without it, slowly
};
/// The order's name as settings spell it.
std::string_view name_of(Bf16Order order);
/// Throws UserError for a name that is none of auto, widened, pairs and amx.
Bf16Order bf16_order_from_name(std::string_view name);
/// The order that `automatic` means on a processor whose best instruction set is `best`; `of_amd`: AMD makes it. A processor with
/// amx takes amx. AMD's processors with AVX-512-bf16 take pairs, which have twice the rate of fp32 there. All others take
/// widened, unknown ones included: Intel's instruction has half of fp32's rate. No measurement decides.
Bf16Order bf16_order_for(bool of_amd, Isa best);
/// What bf16_order_for() gives for this processor.
Bf16Order usual_bf16_order();
/// Whether this processor has the instruction of an order that is not automatic.
bool has_instruction_of(Bf16Order order);

/// How many times fp32's multiply-adds this processor can make of bf16 in the same time: by pairs 2, by AMX 16, else 1.
double bf16_multiply_adds();

/// Kernels that have a plain implementation beside the usual one, with the same bits. The ladder measures what each is worth
/// (docs/performance.md).
struct PlainKernels {
  bool products = false;   ///< products of layers are plain loops; bf16 operands are added in the order of fp32 alone
  bool epilogues = false;  ///< an epilogue is a pass of its own behind its product
  bool norm = false;       ///< each operation of a norm is a pass over all rows
  bool adamw = false;      ///< each operation of AdamW is a pass over a tensor; weights and moments are f32
  friend bool operator==(const PlainKernels&, const PlainKernels&) = default;
};

struct CpuOptions {
  Isa isa = Isa::automatic;            ///< automatic: the best there is. Throws UserError when the machine lacks the one named.
  Products products = Products::ours;  ///< Throws UserError for a library that this build does not have.
  Bf16Order bf16 = Bf16Order::automatic;
  PlainKernels plain = {};
};

}  // namespace lockstep::ops
