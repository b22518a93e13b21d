#include "lab/against/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace lockstep::lab::against {
namespace {

/// A few walks with rounding are a sample of what it does. Programs add in other orders: this much more is let pass.
constexpr double slack = 8;
constexpr std::array<std::uint64_t, 4> seeds{1, 2, 3, 4};

struct Type {
  std::string_view name, stored;
  int fraction_bits;
};
constexpr std::array<Type, 4> types{{{"fp32", "F32", 23}, {"tf32", "", 10}, {"fp16", "F16", 10}, {"bf16", "BF16", 7}}};

double length(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

struct Distance {
  double whole = 0, peak = 0;
};
Distance distance(const Values& a, const Values& b) {
  Distance found;
  for (std::size_t i = 0; i < a.size(); ++i) {
    found.whole += (a[i] - b[i]) * (a[i] - b[i]);
    found.peak = std::max(found.peak, std::abs(a[i] - b[i]));
  }
  return {std::sqrt(found.whole), found.peak};
}

/// The type in which a step was computed, where nothing says it: the shortest of what is dumped.
std::string dtype_of(const Dump& dump) {
  if (!dump.facts.dtype.empty()) return dump.facts.dtype;
  const Type* shortest = types.data();
  for (const auto& [name, tensor] : dump.tensors) {
    for (const Type& type : types) {
      if (type.stored == tensor.dtype && type.fraction_bits < shortest->fraction_bits) shortest = &type;
    }
  }
  return std::string(shortest->name);
}

}  // namespace

double unit_of(std::string_view type) {
  for (const Type& one : types) {
    if (one.name == type || one.stored == type) return std::ldexp(1.0, -1 - one.fraction_bits);
  }
  return 0x1p-24;
}

Step::Step(const Dump& dump, const checkpoint::huggingface::Weights& weights, Team& team)
    : dump_(dump), config_(weights.config()), dtype_(dtype_of(dump)) {
  right_.facts = dump.facts;
  right_.question.config = config_;
  right_.question.batch = batch_of(dump, config_);
  share_alike(right_.question);
  auto values = std::make_shared<std::vector<Values>>();
  for (const layout::ParameterInfo& info : parameters_of(config_))
    values->emplace_back(static_cast<std::size_t>(info.shape.elements()));
  weights.for_each_piece(team, [&](std::size_t index, std::int64_t first, std::span<float> piece) {
    std::ranges::copy(piece, (*values)[index].begin() + first);
  });
  right_.question.weights = values;
  names_.emplace(config_, weights.parameters(), right_.question.batch);
  find_items();
  measure(team);
  find_previous_weights();
}

void Step::find_items() {
  for (const auto& [name, meaning] : names_->parameters()) {
    const auto found = dump_.tensors.find("gradient." + name);
    std::optional<Values> whole;
    if (found != dump_.tensors.end() && found->second.shape() == meaning.shape) whole = found->second.whole(meaning.shape);
    // A family's biases that the system lacks are zeros in its model and nowhere else.
    if (meaning.shape.size() == 1 && !dump_.tensors.contains("weight." + name) && length(before(meaning)) == 0)
      absent_.insert(name);
    if (!whole) continue;
    stored_unit_ = std::max(stored_unit_, unit_of(found->second.dtype));
    given_.emplace(name, std::move(*whole));
  }
  std::erase_if(absent_, [this](const std::string& name) { return given_.contains(name); });
  for (const std::string& name : dump_.frozen) {
    if (names_->parameter(name) != nullptr) absent_.insert(name);
    given_.erase(name);
  }
  if (given_.size() + absent_.size() < names_->parameters().size()) given_.clear();
  for (const auto& [name, tensor] : dump_.tensors) add_item(name, tensor);
  std::ranges::stable_sort(items_, {}, [](const Item& item) { return std::pair(item.kind, item.order); });
  if (items_.empty()) throw UserError("the dump has nothing to judge", "write activations, a loss, gradients or weights");
  for (std::size_t i = 0; i < items_.size(); ++i) {
    for (std::size_t p = 0; p < items_[i].tensor->pieces.size(); ++p) pieces_.push_back({i, p});
  }
}

void Step::add_item(const std::string& name, const DumpTensor& tensor) {
  constexpr std::array<std::string_view, 4> inputs{"tokens", "targets", "documents", "positions"};
  if (std::ranges::count(inputs, name) > 0 || name.starts_with("slot_before.")) return;
  Item item{name, Kind::loss, &tensor};
  if (name == "logits" || name.starts_with("activation.")) {
    if (!find_activation(item)) return not_judged_.push_back(fmt::format("{}: no table has this module", name));
  } else if (name == "rank_loss") {
    item.kind = Kind::rank_loss;
    item.shape = {static_cast<std::int64_t>(dump_.facts.dp * dump_.facts.micro_batches)};
    if (right_.question.batch.rows % item.shape[0] != 0) {
      throw UserError(fmt::format("rank_loss: {} micro-batches of all ranks do not divide {} rows of tokens", item.shape[0],
                                  right_.question.batch.rows),
                      "say \"dp\" and \"micro_batches\" as the step had them");
    }
  } else if (name == "norm") {
    item.kind = Kind::norm;
  } else if (name != "loss" && !find_parameter(item)) {
    const bool head = config_.tied && name.ends_with("lm_head.weight");
    return not_judged_.push_back(fmt::format("{}: {}", name,
                                             head ? "the model ties the head to the token table, but the step has another matrix"
                                             : name.starts_with("slot.") ? "of moments exp_avg and exp_avg_sq alone are judged"
                                                                         : "the model has no such tensor"));
  }
  for (const Piece& piece : tensor.pieces) check_shape(item, piece);
  if (can_judge(item)) items_.push_back(std::move(item));
}

bool Step::find_activation(Item& item) const {
  constexpr std::size_t start = std::string_view("activation.").size();
  item.kind = Kind::activation;
  item.activation = names_->activation(item.name == "logits" ? item.name : std::string_view(item.name).substr(start));
  if (!item.activation) return false;
  const auto [place, block] = item.activation->spot;
  const std::int64_t behind = place >= Place::final_norm ? config_.layers : block;
  item.order = 100 * (place == Place::embedding ? -1 : behind) + static_cast<std::int64_t>(place);
  item.shape = item.activation->shape;
  return true;
}

bool Step::find_parameter(Item& item) const {
  struct Start {
    std::string_view text;
    Kind kind;
    std::string_view slot;
  };
  constexpr std::array<Start, 4> starts{{{"gradient.", Kind::gradient, ""},
                                         {"slot.exp_avg.", Kind::slot, "exp_avg"},
                                         {"slot.exp_avg_sq.", Kind::slot, "exp_avg_sq"},
                                         {"weight.", Kind::weight, ""}}};
  const auto start = std::ranges::find_if(starts, [&](const Start& one) { return item.name.starts_with(one.text); });
  if (start == starts.end()) return false;
  item.kind = start->kind;
  item.slot = start->slot;
  item.parameter_name = item.name.substr(start->text.size());
  item.parameter = names_->parameter(item.parameter_name);
  if (item.parameter == nullptr) return false;
  item.order = item.parameter->order * (item.kind == Kind::gradient ? -1 : 1);
  item.shape = item.parameter->shape;
  return true;
}

void Step::check_shape(const Item& item, const Piece& piece) const {
  const bool alone = item.shape.empty() && piece.values.size() == 1;
  const bool fits = item.tensor->shape() == item.shape && (!piece.indices.empty() || piece.shape == item.shape);
  if (alone || fits) return;
  throw UserError(fmt::format("{}: its shape is {}, but the model's is {}{}", item.name,
                              shape_text(piece.indices.empty() ? piece.shape : item.tensor->shape()), shape_text(item.shape),
                              dump_.ranks.size() > 1 ? " (" + dump_.ranks[piece.rank].file + ")" : ""),
                  "a part of a tensor needs its place in \"slices\"");
}

/// What is not given is not judged: the reason is kept.
bool Step::can_judge(const Item& item) {
  const bool taught = std::ranges::any_of(right_.question.batch.targets, [](std::int64_t one) { return one >= 0; });
  std::string why;
  if (item.kind != Kind::activation && !taught) why = "no token is taught: \"targets\" is missing, or all of it is negative";
  const bool frozen = item.parameter != nullptr && dump_.frozen.contains(item.parameter_name);
  if (frozen && item.kind != Kind::weight) why = "it is of a parameter that is frozen";
  if (frozen && item.kind == Kind::weight) return true;
  if (item.kind == Kind::slot || item.kind == Kind::weight) {
    const std::string missing = missing_facts(dump_.facts);
    if (!missing.empty()) why = fmt::format("not known: {}", missing);
    const auto& name = item.parameter_name;
    const bool started =
        dump_.facts.step <= 1 || (slot("slot_before", "exp_avg", name) && slot("slot_before", "exp_avg_sq", name));
    if (why.empty() && !started) why = "the moments before the step are missing";
  }
  if (why.empty()) return true;
  not_judged_.push_back(fmt::format("{}: {}", item.name, why));
  return false;
}

std::optional<Values> Step::slot(std::string_view when, std::string_view kind, const std::string& name) const {
  const auto found = dump_.tensors.find(fmt::format("{}.{}.{}", when, kind, name));
  const ParameterMeaning* parameter = names_->parameter(name);
  if (found == dump_.tensors.end() || found->second.shape() != parameter->shape) return std::nullopt;
  return found->second.whole(parameter->shape);
}

/// The right answers, and bounds from walks that round.
void Step::measure(Team& team) {
  walked_ = walk(right_.question);
  std::vector<Walked> rounded(seeds.size());
  const auto type = *std::ranges::find(types, dtype_, &Type::name);
  team.for_each(std::ssize(seeds), [&](std::int64_t i, int) {
    const auto n = static_cast<std::size_t>(i);
    const Rounding rounding{type.fraction_bits, dtype_ == "fp16" ? 0x1p-24 / dump_.facts.loss_scale : 0, seeds[n]};
    rounded[n] = walk(right_.question, &rounding);
  });
  double squares = 0, count = 0;
  for (const Values& gradient : walked_.gradients)
    squares += std::pow(length(gradient), 2), count += static_cast<double>(gradient.size());
  const double typical =
      std::sqrt(squares / count) * unit_of(dtype_);  // a gradient that is zero by a symmetry is not zero rounded
  for (const auto& [name, parameter] : names_->parameters()) {
    const Values exact = parameter.published(walked_.gradients[parameter.index]);
    for (const Walked& one : rounded) {
      const double peak = distance(parameter.published(one.gradients[parameter.index]), exact).peak;
      gradient_peak_[name] = std::max({gradient_peak_[name], slack * peak, 8 * typical});
    }
  }
  answer_ = answers(right_, walked_, true);
  bounds_.resize(items_.size());
  for (const Walked& one : rounded) {
    const Evaluated there = answers(right_, one, true);
    double loss = 0;
    for (std::size_t i = 0; i < one.losses.size(); ++i)
      loss += std::abs(one.losses[i] - walked_.losses[i]) * right_.question.shares[i];
    for (std::size_t i = 0; i < items_.size(); ++i) {
      Distance error = distance(there.values[i], answer_.values[i]);
      if (items_[i].kind == Kind::loss) error = {loss, loss};
      if (items_[i].kind == Kind::rank_loss) error = {slack * loss, slack * loss};
      if (items_[i].kind == Kind::gradient)
        error.whole += typical * std::sqrt(static_cast<double>(answer_.values[i].size())), error.peak += typical;
      bounds_[i] = {std::max(bounds_[i].whole, slack * error.whole), std::max(bounds_[i].peak, slack * error.peak)};
    }
  }
}

/// Undoes the step before, where the moments behind it are known.
void Step::find_previous_weights() {
  const Facts& facts = dump_.facts;
  if (facts.step < 2 || !missing_facts(facts).empty()) return;
  auto previous = std::make_shared<std::vector<Values>>(*right_.question.weights);
  std::map<std::string, Values> gradients;
  for (const auto& [name, parameter] : names_->parameters()) {
    if (absent_.contains(name)) continue;
    const auto mean = slot("slot_before", "exp_avg", name), square = slot("slot_before", "exp_avg_sq", name);
    if (!mean || !square) return;
    const double rate = facts.previous_learning_rate < 0 ? facts.learning_rate : facts.previous_learning_rate;
    const bool decays = (parameter.decays || facts.decay == "all") && !facts.decay_in_gradient;
    const double decay = decays ? rate * facts.weight_decay : 0;
    const double first = 1 - std::pow(facts.beta1, facts.step - 1), second = 1 - std::pow(facts.beta2, facts.step - 1);
    Values weights = before(parameter);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double size = std::sqrt((*square)[i] / second) + facts.eps;
      weights[i] = (weights[i] + (size > 0 ? rate * (*mean)[i] / first / size : 0)) / (1 - decay);
    }
    parameter.put(weights, (*previous)[parameter.index]);
    for (const double value : *mean) gradients[name].push_back(value / (1 - facts.beta1));
  }
  right_.previous_weights = previous;
  if (facts.step == 2 && !(facts.decay_in_gradient && facts.weight_decay > 0))  // the first moments are that of one step
    right_.previous_gradients = std::make_shared<const std::map<std::string, Values>>(std::move(gradients));
}

Evaluated Step::evaluate(const Case& changed, bool walks) const {
  return walks ? answers(changed, walk(changed.question), !has_gradients()) : answers(changed, walked_, true);
}

Values Step::at_piece(const PieceOf& of, const Values& whole) const {
  const Item& item = items_[of.item];
  const Piece& piece = this->piece(of);
  const std::vector<std::int64_t>& documents = right_.question.batch.documents;
  const bool pads = item.kind == Kind::activation && std::ranges::min(documents) < 0;
  if (piece.indices.empty() && !pads) return whole;
  const std::vector<std::int64_t> places = piece.places(item.shape);
  Values part(places.size());
  for (std::size_t i = 0; i < part.size(); ++i) {
    const bool padding = pads && documents[static_cast<std::size_t>(places[i] / item.shape.back())] < 0;
    part[i] = padding ? piece.values[i] : whole[static_cast<std::size_t>(places[i])];
  }
  return part;
}

double Step::excess(const PieceOf& of, const Evaluated& evaluated) const {
  const Values& tolerance = evaluated.tolerances[of.item];
  double least = excess(of, evaluated.values[of.item], tolerance, evaluated.growth);
  for (const Values& other : evaluated.others[of.item]) least = std::min(least, excess(of, other, tolerance, evaluated.growth));
  return least;
}

double Step::excess(const PieceOf& of, const Values& values, const Values& tolerance, double growth) const {
  const Item& item = items_[of.item];
  const Values &found = piece(of).values, expected = at_piece(of, values);
  const auto over = [](double error, double bound) {
    return error == 0 ? 0 : bound == 0 ? std::numeric_limits<double>::infinity() : error / bound;
  };
  if (!tolerance.empty()) {
    const Values allowed = at_piece(of, tolerance);
    double most = 0;
    for (std::size_t i = 0; i < found.size(); ++i) most = std::max(most, over(std::abs(found[i] - expected[i]), allowed[i]));
    return most;
  }
  const Values& right = answer_.values[of.item];
  const double size = length(values), own = length(right) > 0 ? std::max(1.0, size / length(right)) : 1;
  const double grown = item.kind == Kind::gradient ? std::max(own, growth) : own;
  double unit = unit_of(item.tensor->dtype);
  if (item.kind == Kind::loss || item.kind == Kind::rank_loss) unit = std::max(unit, unit_of(dtype_));
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  const Distance error = distance(found, expected);
  return std::max(over(error.whole, bounds_[of.item].whole * grown + 4 * unit * size),
                  over(error.peak, bounds_[of.item].peak * grown + 4 * unit * largest));
}

}  // namespace lockstep::lab::against
