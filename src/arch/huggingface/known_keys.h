#pragma once

// The keys of config.json that no shape follows from, a table for each family. Some have one value alone that is computed, others
// change nothing. What config_read asks for is known besides; every other key is refused. Names and defaults are transformers'
// 5.24: configuration_utils.py and models/*/configuration_*.py. Keys of older versions in published files are added.

#include <span>
#include <string_view>

#include "arch/huggingface/fields.h"
#include "arch/huggingface/tensors.h"

namespace lockstep::arch::huggingface {

struct KnownKeys {
  std::span<const std::string_view> classes;  ///< of "architectures": those that compute what the family does here
  std::span<const OnlyValue> only;
  std::span<const std::string_view> harmless;
};

/// Keys that every family of transformers has.
KnownKeys common_keys();
/// Keys that this family has besides.
KnownKeys keys_of(Family family);
/// Keys inside "rope_scaling" and "rope_parameters".
KnownKeys rope_keys();

}  // namespace lockstep::arch::huggingface
