#pragma once

// Adapters in PEFT's files (arch/huggingface/adapter), and in checkpoints of ours: read, written, and merged into the matrices
// that they are beside.

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arch/config.h"
#include "base/json.h"
#include "checkpoint/reader.h"
#include "checkpoint/weight_source.h"

namespace lockstep::checkpoint::huggingface {

inline constexpr std::string_view adapter_config_file = "adapter_config.json";
inline constexpr std::string_view adapter_weights_file = "adapter_model.safetensors";

/// Whether a tensor of a checkpoint is an adapter's.
bool is_adapter_tensor(std::string_view name);

/// A tensor in memory.
struct AdapterValues {
  Shape shape;
  std::vector<float> values;
};

/// The files of an adapter for `model`, all in memory.
class AdapterFolder final : public WeightSource {
 public:
  /// Throws UserError for files that are missing or damaged, options that are not known here, and weights that are not finite. It
  /// also refuses tensors that are missing, of other modules or of another shape than the model's.
  AdapterFolder(const io::Path& path, const arch::ModelConfig& model);
  /// The adapters that the model has with these files.
  const arch::Adapter& adapter() const { return adapter_; }
  /// The options of adapter_config.json that training does not follow.
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Whether the files have this tensor of ours.
  bool has(std::string_view name) const { return tensors_.contains(name); }
  std::unique_ptr<RangeReader> read_model(std::span<const LogicalTensor> weights) const override;

 private:
  arch::Adapter adapter_;
  std::vector<std::string> warnings_;
  std::map<std::string, AdapterValues, std::less<>> tensors_;  ///< by our names
};

/// A model's weights from `base`, and the adapters from `adapter`; null: adapters stay as they are. Both outlive this.
class AdaptedSource final : public WeightSource {
 public:
  AdaptedSource(const WeightSource& base, const AdapterFolder* adapter) : base_(base), adapter_(adapter) {}
  std::unique_ptr<RangeReader> read_model(std::span<const LogicalTensor> weights) const override;

 private:
  const WeightSource& base_;
  const AdapterFolder* adapter_;
};

/// The adapters of a checkpoint, to be added to the matrices that they are beside. Sums are in fp64, rounded once to fp32.
class AdapterMerge {
 public:
  /// Throws UserError for damaged tensors. Without adapters nothing is ever added.
  AdapterMerge(const Reader& reader, const arch::ModelConfig& model);
  /// Adds to elements [first, first + values.size()), whole rows, of a matrix. Several threads may call it at once.
  void add(const std::string& matrix, std::int64_t first, std::span<float> values) const;

 private:
  struct Beside {
    std::int64_t first_row;
    AdapterValues a, b;
  };
  double scale_;
  std::map<std::string, std::vector<Beside>, std::less<>> besides_;
};

/// Writes a checkpoint's adapters into a new folder, as PEFT has them; `base`: the model that they are of. Returns the bytes of
/// the weights. Throws UserError: the folder is there, no family has the model's parts, a damaged checkpoint.
std::uint64_t export_adapter(const Reader& reader, const io::Path& folder, const std::string& base);

}  // namespace lockstep::checkpoint::huggingface
