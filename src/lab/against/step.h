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

/// In the order in which a step computes them.
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

/// A case's answer for each item.
struct Evaluated {
  std::vector<Values> values;
  std::vector<std::vector<Values>> others;  ///< that are as right
  std::vector<Values> tolerances;           ///< element by element, behind the gradients; empty: by the item's bound
  double growth = 1;                        ///< of all gradients together, against the right ones
};

/// One file's part of an item.
struct PieceOf {
  std::size_t item, piece;
};

/// Half the distance of neighbours, relative to them, in a type by its name here or in safetensors.
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
  /// Names that say nothing to the oracle, and what facts are missing for: a sentence each.
  const std::vector<std::string>& not_judged() const { return not_judged_; }
  /// Whether norm and update are judged by the dump's own gradients.
  bool has_gradients() const { return !given_.empty(); }
  std::string_view dtype() const { return dtype_; }

  /// `walks`: false where the case changes the update alone. Norm and update are left out where the dump's gradients decide them.
  Evaluated evaluate(const Case& changed, bool walks) const;
  /// Elements of a whole item at a piece's places. Those of padding are the piece's own: programs differ there, and rightly so.
  Values at_piece(const PieceOf& piece, const Values& whole) const;
  const Piece& piece(const PieceOf& of) const { return items_[of.item].tensor->pieces[of.piece]; }
  /// How far a piece is from an answer, in units of what rounding may do; at most 1: it agrees.
  double excess(const PieceOf& of, const Evaluated& evaluated) const;
  /// What rounding may do to an element of an item.
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
  double stored_unit_ = 0;                       // of their type
  std::map<std::string, double> gradient_peak_;  // what rounding may do to an element
  std::vector<Bound> bounds_;
  Walked walked_;
  Evaluated answer_;
};

}  // namespace lockstep::lab::against
