#pragma once

// What a checkpoint contains. manifest.json is written last, so a folder that has one is complete. Its own checksum ends it. It
// carries the checksum of every tensor and of every file's header, so that no damage goes unnoticed.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "checkpoint/tensor_file.h"

namespace lockstep::checkpoint {

inline constexpr int format_version = 1;
inline constexpr std::string_view manifest_file = "manifest.json";
inline constexpr std::string_view manifest_format = "lockstep checkpoint";
inline constexpr std::string_view model_file = "model.safetensors";  ///< weights by their global names
inline constexpr std::string_view optimizer_file =
    "optimizer.safetensors";                                  ///< name + "." + the optimizer's slot; or the suffix below
inline constexpr std::string_view master_suffix = ".master";  ///< suffix of fp32 weights

struct StoredTensor {
  LogicalTensor tensor;
  std::string file;            ///< within the folder
  std::uint64_t checksum = 0;  ///< io::checksum of all elements
};

struct StoredFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t header_checksum = 0;  ///< io::checksum of the header's bytes, the length in front included
};

struct Manifest {
  // Facts of the run, which the caller gives.
  std::int64_t step = 0;         ///< iterations done
  std::int64_t updates = 0;      ///< updates of the weights: iterations that left theirs out do not count
  std::uint64_t seed = 0;        ///< seed of the run, the drawn one where it was random
  std::int64_t next_sample = 0;  ///< global number of the next training sample: the whole state of the data
  std::int64_t tokens_seen = 0;
  std::int64_t global_batch = 0;               ///< samples of a step, over all ranks
  std::optional<double> validation_loss;       ///< measured at this step
  std::optional<double> best_validation_loss;  ///< lowest of the run up to here
  Json model;                                  ///< the model's configuration
  Json optimizer;                              ///< the optimizer's settings
  Json run;                                    ///< whatever else the caller wants back
  Json layout;                                 ///< which ranks held what: for people, the tensors' files do not depend on it
  DType dtype = DType::f32;                    ///< type of weights and activations while the model was trained
  /// The model's file has the fp32 weights that are updated (master copies, where the model reads bf16): "<name>.master" is not
  /// stored, readers find "<name>".
  bool master_is_model = false;

  // Filled in by the writer.
  std::string program;
  std::vector<StoredFile> files;
  std::vector<StoredTensor> tensors;

  const StoredFile* find_file(std::string_view name) const;
  /// Bytes of all files.
  std::uint64_t bytes() const;
};

/// The manifest's text. Losses that are not finite are stored as absent.
std::string manifest_text(const Manifest& manifest);
/// Reads a manifest's text. Throws UserError naming `path` when it is damaged, of another format version or not a manifest.
Manifest parse_manifest(std::string_view text, std::string_view path);

}  // namespace lockstep::checkpoint
