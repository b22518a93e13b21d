#pragma once

// A dump: one training step of another system, as that system wrote it. Tensors are in safetensors files, one for the whole step
// or one a rank. JSON beside each file has the facts of the step. docs/against.md has the format.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "io/file.h"
#include "lab/against/oracle.h"

namespace lockstep::lab::against {

inline constexpr double not_given = -1;

/// The settings of the step. What depends on a setting that is not given is not judged.
struct Facts {
  double learning_rate = not_given, previous_learning_rate = not_given, beta1 = not_given, beta2 = not_given, eps = not_given,
         weight_decay = not_given, clip = not_given;
  double loss_scale = 1;
  double step = 0;  ///< number of the update, from 1; 0: not given
  double micro_batches = 1, dp = 1, tp = 1, cp = 1, pp = 1, padded_vocabulary = 0;
  bool clipped = false;            ///< whether the gradients are those after clipping
  bool decay_in_gradient = false;  ///< the rule is Adam's, not AdamW's
  std::string decay = {};          ///< which parameters decay, "matrices" or "all"; empty: not given
  std::string dtype = {};          ///< the type of its computation: fp32, tf32, bf16 or fp16; empty: the tensors' type

  friend bool operator==(const Facts&, const Facts&) = default;
};

/// The dimensions of a rank's coordinates.
inline constexpr std::array<std::string_view, 4> rank_dimensions{"dp", "tp", "cp", "pp"};
enum Dimension : std::uint8_t { dp, tp, cp, pp, no_dimension };

struct Rank {
  std::string file;
  std::array<std::int64_t, 4> place{};
  std::string name;            ///< "dp=1, tp=0"; empty for a step in one file
  bool other_weights = false;  ///< its weights differ from those of the first rank that should have the same
};

/// A file's part of a tensor.
struct Piece {
  std::size_t rank = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::vector<std::int64_t>> indices;  ///< by dimension, in the whole tensor; empty: the piece is the whole
  Values values;

  /// Where each element lies in the whole tensor.
  std::vector<std::int64_t> places(const std::vector<std::int64_t>& whole) const;
};

struct DumpTensor {
  std::string dtype;  ///< safetensors' name
  std::vector<Piece> pieces;

  /// The smallest shape that holds all pieces.
  std::vector<std::int64_t> shape() const;
  /// The whole tensor. Each element is from the first piece that has it. None where an element is missing.
  std::optional<Values> whole(const std::vector<std::int64_t>& shape) const;
};

struct Dump {
  Facts facts;
  std::vector<Rank> ranks;
  std::map<std::string, DumpTensor, std::less<>> tensors;
  std::set<std::string> frozen;  ///< parameters that the step does not train
  io::Path model;                ///< the model before the step, as a Hugging Face folder
};

/// Reads one file, or all of a folder. Throws UserError with one sentence for each fault. Faults are files that are missing or
/// damaged, unknown facts or contradictions, slices that do not fit, and elements that are not finite.
Dump read_dump(const io::Path& path);

/// The facts of a JSON text. Members that only a rank's file has ("coordinates", "slices", "frozen", "model", ...) are passed
/// over.
Facts facts_of(const Json& json, const std::string& what);

/// The step's samples. Throws UserError where tokens are missing, are outside of the model's vocabulary, or differ between ranks.
Batch batch_of(const Dump& dump, const arch::ModelConfig& config);

/// The place of an element with this number: "[3, 5]".
std::string place_text(std::int64_t element, const std::vector<std::int64_t>& shape);
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace lockstep::lab::against
