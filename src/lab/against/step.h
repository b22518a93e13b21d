#pragma once

// The tensors of a dump that can be judged, the oracle's values for them, and bounds on what rounding may change.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/huggingface/weights.h"
#include "lab/against/dump.h"
#include "lab/against/names.h"
#include "lab/against/ways.h"

namespace lockstep::lab::against {

/// Kinds of tensors, in the order in which a step computes them.
enum class Kind : std::uint8_t { activation, loss, rank_loss, gradient, norm, slot, weight };

struct Item {
  std::string name;
  Kind kind = Kind::activation;
  const DumpTensor* tensor = nullptr;
  std::vector<std::int64_t> shape = {};
  std::optional<ActivationMeaning> activation = {};
  const ParameterMeaning* parameter = nullptr;
  std::string parameter_name = {}, slot = {};
  std::int64_t order = 0;
};

/// The answer of one case: values for each item.
struct Evaluated {
  std::vector<Values> values;
  std::vector<std::vector<Values>> others;  ///< values that are as right as these
  std::vector<Values> tolerances;           ///< by element, for items behind the gradients; empty: the item's bound holds
  double growth = 1;                        ///< the norm of all gradients, over the right one
};

/// One file's piece of an item.
struct PieceOf {
  std::size_t item, piece;
};

/// Half the relative distance of neighbouring numbers in a type, which has its name here or in safetensors.
double unit_of(std::string_view type);

class Step {
 public:
  /// Walks the step, exactly and with rounding. `dump` outlives this. Throws UserError for tensors that do not fit the model.
  Step(const Dump& dump, const checkpoint::huggingface::Weights& weights, Team& team);

  const Dump& dump() const { return dump_; }
  const Case& right() const { return right_; }
  const std::vector<Item>& items() const { return items_; }
  const std::vector<PieceOf>& pieces() const { return pieces_; }
  const Evaluated& answer() const { return answer_; }
  /// Sentences about what is not judged: names that the oracle does not know, and facts that are missing.
  const std::vector<std::string>& not_judged() const { return not_judged_; }
  /// Whether norm and update are judged by the dump's own gradients.
  bool has_gradients() const { return !given_.empty(); }
  std::string_view dtype() const { return dtype_; }

  /// The answer of a case. `walks`: false where it changes the update alone. Norm and update are left out where the dump's own
  /// gradients decide them.
  Evaluated evaluate(const Case& changed, bool walks) const;
  /// Elements of a whole item at a piece's places. Elements of padding are taken from the piece, since programs may differ there.
  Values at_piece(const PieceOf& piece, const Values& whole) const;
  const Piece& piece(const PieceOf& of) const { return items_[of.item].tensor->pieces[of.piece]; }
  /// The difference between a piece and an answer, in units of what rounding may do. At most 1: they agree.
  double excess(const PieceOf& of, const Evaluated& evaluated) const;
  /// The largest difference that rounding may make in an element of an item.
  double peak(std::size_t item) const { return bounds_[item].peak; }
  Values before(const ParameterMeaning& parameter) const {
    return parameter.published((*right_.question.weights)[parameter.index]);
  }

 private:
  struct Bound {
    double whole = 0, peak = 0;
  };
  void find_items();
  void add_item(const std::string& name, const DumpTensor& tensor);
  bool find_activation(Item& item) const;
  bool find_parameter(Item& item) const;
  void check_shape(const Item& item, const Piece& piece) const;
  bool can_judge(const Item& item);
  void measure(Team& team);
  void find_previous_weights();
  std::optional<Values> slot(std::string_view when, std::string_view kind, const std::string& name) const;
  std::map<std::string, Values> gradients_of(const Case& changed, const Walked& walked) const;
  std::map<std::string, Values> clipped_early(const Case& changed) const;
  Evaluated answers(const Case& changed, const Walked& walked, bool updates) const;
  void answer_updates(const Case& changed, const std::map<std::string, Values>& gradients, Evaluated& evaluated) const;
  double squares_of_files(const Case& changed) const;
  double norm_tolerance(const Item& item, double norm, const std::map<std::string, Values>& gradients, double growth) const;
  double norm_of(const Case& changed, const std::map<std::string, Values>& gradients) const;
  void answer_update(const Item& item, const Case& changed, const Values& gradient, double factor, double growth, Values& value,
                     Values& tolerance) const;
  double excess(const PieceOf& of, const Values& values, const Values& tolerance, double growth) const;

  const Dump& dump_;
  arch::ModelConfig config_;
  Case right_;
  std::string dtype_;
  std::optional<Names> names_;
  std::vector<Item> items_;
  std::vector<PieceOf> pieces_;
  std::vector<std::string> not_judged_;
  std::set<std::string> absent_;                 // parameters that the system does not have, or does not train
  std::map<std::string, Values> given_;          // the dump's gradients by parameter, where it has all
  double stored_unit_ = 0;                       // the unit of rounding of their type
  std::map<std::string, double> gradient_peak_;  // by parameter: what rounding may change in an element
  std::vector<Bound> bounds_;
  Walked walked_;
  Evaluated answer_;
};

}  // namespace lockstep::lab::against
