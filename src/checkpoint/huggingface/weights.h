#pragma once

// The weights of a published model as our parameters: found by name, checked against config.json, read in pieces and converted.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arch/huggingface/config_json.h"
#include "checkpoint/huggingface/folder.h"
#include "checkpoint/huggingface/stored_part.h"
#include "checkpoint/weight_source.h"

namespace lockstep::checkpoint::huggingface {

class Weights final : public WeightSource {
 public:
  /// Opens what Folder opens, and throws what it throws. Throws UserError for a config.json that is not understood. It also
  /// refuses tensors that are missing, unknown, or of another shape or type than the model's.
  explicit Weights(const io::Path& path);

  const Folder& folder() const { return folder_; }
  const arch::ModelConfig& config() const { return model_.config; }
  /// The parameters, in the order of the model's table.
  const std::vector<arch::huggingface::Parameter>& parameters() const { return table_.parameters; }
  /// The type that the first parameter is stored in.
  ElementType type() const { return parts_.front().front().type; }
  /// What was decided where the files contradict themselves: to warn about.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Fills ranges of fp32 or bf16. A model with a shorter table of learned positions gets the first rows of the stored one.
  std::unique_ptr<RangeReader> read_model(std::span<const LogicalTensor> weights) const override;

  /// Takes elements [first, first + values.size()) of parameter `index`.
  using Take = std::function<void(std::size_t index, std::int64_t first, std::span<float> values)>;
  /// Hands over every element of every parameter, in pieces of 4 MiB; several threads at once. Throws UserError when some are
  /// not finite.
  void for_each_piece(Team& team, const Take& take) const;

 private:
  class Ranges;
  struct Piece {
    std::size_t parameter;
    std::int64_t first, count;
  };
  const Folder::Stored* find(std::string_view name) const;
  void settle_head();
  std::optional<StoredPart> match(const arch::huggingface::Part& published, const Folder::Stored& stored,
                                  std::vector<Problem>& problems) const;
  void match_tensors();
  void add_pieces(std::vector<Piece>& pieces, std::size_t parameter, std::int64_t first, std::int64_t count) const;
  void gather(std::size_t parameter, std::int64_t first, std::span<float> to, Scratch& scratch) const;

  Folder folder_;
  arch::huggingface::PublishedModel model_;
  arch::huggingface::TensorTable table_;
  std::vector<std::vector<StoredPart>> parts_;  ///< by parameter and part
  std::vector<std::string> warnings_;
};

}  // namespace lockstep::checkpoint::huggingface
