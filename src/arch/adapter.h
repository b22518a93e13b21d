#pragma once

// Adapters beside matrices that stay as they are (LoRA: Hu et al. 2021): y = x W^T + scale (x A^T) B^T, where A [r, in] and
// B [out, r] alone are trained. A starts as PyTorch's Linear does, B as zero, so that nothing is added at first.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/parameters.h"
#include "base/values/choice.h"
#include "layout/range.h"
#include "layout/sharded_dims.h"

namespace lockstep::arch {

/// A matrix of a block, or rows of it, with an adapter.
struct AdapterSite {
  Role matrix, a, b;
  layout::Range rows;     ///< of the matrix' out-features, on the rank whose sizes were given
  std::string_view name;  ///< "q", as model.adapter_targets has it; of fused matrices "qkv" or "gate_up"
};

/// The sites of every block, in the order of its forward pass. Models that are published with one matrix for q, k and v (GPT-2,
/// Phi-3) have one site for these. In Phi-3 the gate and what it multiplies have one site, too.
std::vector<AdapterSite> adapter_sites(const ModelConfig& config, const layout::ShardedDims& dims);

/// The parameters of block `index`'s adapters.
UnitSpec adapter_unit(const ModelConfig& config, DecayRule decay, std::int64_t index);

/// The parameter of a unit with this role.
const layout::ParameterInfo& parameter_of(const UnitSpec& unit, Role role);

/// "q,v": the targets in words, in the order of Adapter::Target; all of them: "all".
std::string words_of(AdapterTargets targets);
/// The targets of words with commas between, "all", "attention" and "mlp" among them; none where a word is not known.
std::optional<AdapterTargets> adapter_targets(std::string_view words);

/// Everything that is wrong with a model's adapters.
std::vector<Problem> check_adapter(const ModelConfig& config);

}  // namespace lockstep::arch

namespace lockstep {
template <>
struct Choice<arch::WholeEnds> {
  using enum arch::WholeEnds;
  static constexpr std::array<Named<arch::WholeEnds>, 4> all{
      {{"none", none}, {"embeddings", embeddings}, {"head", head}, {"both", both}}};
};
}  // namespace lockstep
