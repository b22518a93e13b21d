#pragma once

// A checkpoint as a model that transformers loads.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/huggingface/elements.h"
#include "checkpoint/huggingface/weights.h"
#include "checkpoint/reader.h"

namespace lockstep::checkpoint::huggingface {

struct ExportOptions {
  std::optional<ElementType> type;                              ///< none: what the checkpoint holds
  std::uint64_t shard_bytes = 5'000'000'000;                    ///< a file grows no larger, unless a single tensor is larger
  std::vector<std::pair<std::string, std::string>> texts = {};  ///< further files: name, perhaps in a folder, and content
  /// Members for config.json: ids of the tokens that begin and end a text, and how many positions the published model had.
  Json generation = Json::Object{};
};

/// The member of config.json that says how far a model reads.
inline constexpr const char* positions_key = "max_position_embeddings";
/// A config.json reads as far as the published model, whose `facts` may have the member, where windows of its last training were
/// shorter.
void keep_positions(Json& config, const Json& facts);

struct ExportReport {
  std::uint64_t bytes = 0;  ///< of the weights' files
  std::size_t files = 0;
  ElementType type = ElementType::f32;
};

/// The type of a checkpoint's weights. Throws UserError where it has other tensors than the table.
ElementType stored_type(const Reader& reader, const arch::huggingface::TensorTable& table);
/// Hands over every element of a checkpoint's parameters as Weights::for_each_piece() does. Each tensor is compared with its
/// checksum, and adapters are added. Throws UserError: a damaged tensor, weights that are not finite.
void for_each_piece(const Reader& reader, const arch::huggingface::TensorTable& table, Team& team, const Weights::Take& take);

/// Writes config.json, model.safetensors (or numbered files and their index) and the further files into a new folder. Every
/// tensor is compared with its checksum on the way. Some MiB of memory a thread, however large the model; what throws leaves
/// nothing behind. Throws UserError: the folder is there, no family has the model's parts, a weight that fp16 cannot hold, a
/// damaged checkpoint.
ExportReport export_model(const Reader& reader, const io::Path& folder, const ExportOptions& options, Team& team);

}  // namespace lockstep::checkpoint::huggingface
