#pragma once

// What another system did in one training step, as it wrote it down. Tensors are in safetensors files, one for the whole step or
// one a rank. What is known of the step is JSON beside each. docs/against.md has the format.

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

/// What the step was told. What is not given is not judged.
struct Facts {
  double learning_rate = not_given, previous_learning_rate = not_given, beta1 = not_given, beta2 = not_given, eps = not_given,
         weight_decay = not_given, clip = not_given;
  double loss_scale = 1;
  double step = 0;  ///< number of the update, from 1; 0: not given
  double micro_batches = 1, dp = 1, tp = 1, cp = 1, pp = 1, padded_vocabulary = 0;
  bool clipped = false;            ///< the gradients are those behind the clipping
  bool decay_in_gradient = false;  ///< the rule is Adam's and not AdamW's
  std::string decay = {};          ///< of "matrices" or "all"; empty: not given
  std::string dtype = {};          ///< in which it was computed: fp32, tf32, bf16 or fp16; empty: that of the tensors

  friend bool operator==(const Facts&, const Facts&) = default;
};

/// Dimensions of a rank's place.
inline constexpr std::array<std::string_view, 4> rank_dimensions{"dp", "tp", "cp", "pp"};
enum Dimension : std::uint8_t { dp, tp, cp, pp, no_dimension };

struct Rank {
  std::string file;
  std::array<std::int64_t, 4> place{};
  std::string name;            ///< "dp=1, tp=0"; empty for a step in one file
  bool other_weights = false;  ///< it begins with others than the first rank that should have the same
};

/// What one file has of a tensor.
struct Piece {
  std::size_t rank = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::vector<std::int64_t>> indices;  ///< by dimension, in the whole tensor; empty: it is whole
  Values values;

  /// Where each element lies in the whole tensor.
  std::vector<std::int64_t> places(const std::vector<std::int64_t>& whole) const;
};

struct DumpTensor {
  std::string dtype;  ///< safetensors' name
  std::vector<Piece> pieces;

  /// The extents that hold all pieces.
  std::vector<std::int64_t> shape() const;
  /// The whole, by the first piece that has an element; nothing where one is missing.
  std::optional<Values> whole(const std::vector<std::int64_t>& shape) const;
};

struct Dump {
  Facts facts;
  std::vector<Rank> ranks;
  std::map<std::string, DumpTensor, std::less<>> tensors;
  std::set<std::string> frozen;  ///< parameters that the step does not train
  io::Path model;                ///< before the step, as a Hugging Face folder
};

/// Reads one file, or all of a folder. Throws UserError with one sentence for each fault. Faults are files that are missing or
/// damaged, unknown facts or contradictions, slices that do not fit, and elements that are not finite.
Dump read_dump(const io::Path& path);

/// The facts of a JSON text; members of the rank's file alone ("coordinates", "slices", "frozen", "model", ...) are passed
/// over.
Facts facts_of(const Json& json, const std::string& what);

/// The step's samples. Throws UserError: tokens that are missing, are none of the model's, or differ between ranks.
Batch batch_of(const Dump& dump, const arch::ModelConfig& config);

/// "[3, 5]" of an element's number.
std::string place_text(std::int64_t element, const std::vector<std::int64_t>& shape);
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace lockstep::lab::against
