#pragma once

// Adapters as PEFT publishes them (github.com/huggingface/peft: tuners/lora/config.py, LoraConfig; utils/save_and_load.py):
// adapter_config.json, and tensors named "base_model.model.<module>.lora_A.weight" [r, in] and ".lora_B.weight" [out, r].

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/huggingface/tensors.h"
#include "base/error.h"
#include "base/json.h"

namespace lockstep::arch::huggingface {

/// A tensor of an adapter. Its published form has the same elements in the same order.
struct AdapterTensor {
  std::string name, published;
  Shape shape;
};

/// All tensors of the model's adapters, in the order of its table.
std::vector<AdapterTensor> adapter_tensors(const ModelConfig& config, Family family);

/// The tensors in the files of an adapter: the adapter's own, and the matrices that are trained whole beside them. The latter
/// have their modules' names ("base_model.model.lm_head.weight"). A tied matrix is there twice, as token table and as head.
std::vector<AdapterTensor> tensors_of_files(const ModelConfig& config, Family family);

/// adapter_config.json; `base`: which model the adapters are of, as PEFT's base_model_name_or_path has it.
Json adapter_config(const ModelConfig& config, Family family, const std::string& base);

/// What such a file says of an adapter for a model of this family, tied or not; the targets follow from the tensors. Throws
/// UserError, naming `what`, for methods and options that adapters do not have here.
Adapter adapter_from_config(const Json& json, Family family, bool tied, std::string_view what);

/// Whether a regular expression of Python's matches all of a module's path. Nothing where that is not known here.
using MatchesPath = std::function<std::optional<bool>(const std::string& pattern, std::string_view path)>;

/// Problems where other modules or blocks have adapters by adapter_config.json, which is `json`, than by its weights, `tensors`.
std::vector<Problem> check_targets(const Json& json, Family family, std::span<const AdapterTensor> tensors, std::int64_t blocks,
                                   std::string_view what, const MatchesPath& matches);

}  // namespace lockstep::arch::huggingface
