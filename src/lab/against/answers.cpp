// What a case's walk says of each item, and how the update goes on from its gradients or the dump's.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "lab/against/step.h"
#include "lab/against/way_parts.h"

namespace lockstep::lab::against {
namespace {

constexpr double float_unit = 0x1p-24;

/// Rows [first, end) of a part as PyTorch's chunk() makes it.
bool in_rows(const OnlyPart& part, std::int64_t row, std::int64_t rows) {
  const std::int64_t size = (rows + part.parts - 1) / part.parts;
  return row / size == part.number;
}

/// The gradient itself, but where the way clips each of its elements.
Values clipped_elements(Values gradient, const Case& changed) {
  if (changed.update.clip != Clip::by_element) return gradient;
  for (double& value : gradient) value = std::clamp(value, -changed.facts.clip, changed.facts.clip);
  return gradient;
}

/// Losses by micro-batch: the mean over its targets, the sum, and its share of the step's.
void rank_losses(const Case& changed, const Walked& walked, Values& means, std::vector<Values>& others) {
  const Batch& batch = changed.question.batch;
  Values counts(means.size()), shares(means.size());
  for (std::size_t i = 0; i < walked.losses.size(); ++i) {
    const auto unit = static_cast<std::size_t>(unit_of_row(changed, static_cast<std::int64_t>(i) / batch.columns));
    means[unit] += walked.losses[i];
    shares[unit] += walked.losses[i] * changed.question.loss_shares[i];
    if (batch.targets[i] >= 0) ++counts[unit];
  }
  others = {shares, means};
  for (std::size_t u = 0; u < means.size(); ++u) means[u] /= std::max(counts[u], 1.0);
}

}  // namespace

/// The gradients of the parameters that are trained.
std::map<std::string, Values> Step::gradients_of(const Case& changed, const Walked& walked) const {
  std::map<std::string, Values> gradients;
  for (const auto& [name, parameter] : names_->parameters()) {
    if (absent_.contains(name)) continue;
    Values& values = gradients[name] = parameter.published(walked.gradients[parameter.index]);
    for (std::size_t i = 0; i < values.size() && changed.previous_share != 0; ++i)
      values[i] = values[i] * changed.own_share + changed.previous_gradients->at(name)[i] * changed.previous_share;
  }
  return gradients;
}

/// The sum of the parts' gradients, clipped before it is whole.
std::map<std::string, Values> Step::clipped_early(const Case& changed) const {
  const Early early = changed.early;
  const double parts = early == Early::each_rank ? changed.facts.dp : changed.facts.micro_batches;
  std::map<std::string, Values> sum;
  const auto multiply = [](std::map<std::string, Values>& gradients, double factor) {
    for (auto& [name, values] : gradients) {
      for (double& value : values) value *= factor;
    }
  };
  const auto clip = [&](std::map<std::string, Values>& gradients) {
    multiply(gradients, clip_factor(norm_of(right_, gradients), changed.facts));
  };
  for (double part = 0; part < parts; ++part) {
    Question one = changed.question;
    for (std::int64_t i = 0; i < std::ssize(one.shares); ++i) {
      const std::int64_t row = i / one.batch.columns;
      const bool mine = (early == Early::each_rank ? rank_of_row(changed, row) : micro_of_row(changed, row)) == part;
      one.shares[static_cast<std::size_t>(i)] *= mine ? changed.early_scale : 0;
    }
    std::map<std::string, Values> gradients = gradients_of(changed, walk(one));
    if (early == Early::each_rank || early == Early::each_micro_batch) clip(gradients);
    multiply(gradients, 1 / changed.early_scale);
    for (auto& [name, values] : gradients) {
      Values& total = sum[name];
      total.resize(values.size());
      std::ranges::transform(values, total, total.begin(), std::plus<>());
    }
    if (early == Early::sum_so_far || (early == Early::before_last && part + 2 == parts)) clip(sum);
  }
  return sum;
}

Evaluated Step::answers(const Case& changed, const Walked& walked, bool updates) const {
  Evaluated evaluated{std::vector<Values>(items_.size()), std::vector<std::vector<Values>>(items_.size()),
                      std::vector<Values>(items_.size())};
  const std::map<std::string, Values> gradients =
      changed.early == Early::no ? gradients_of(changed, walked) : clipped_early(changed);
  const double factor = changed.facts.clipped ? clip_factor(norm_of(right_, gradients), dump_.facts) : 1;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    if (item.kind == Kind::activation) evaluated.values[i] = published(*item.activation, walked);
    if (item.kind == Kind::loss) evaluated.values[i] = {walked.loss};
    if (item.kind == Kind::rank_loss) {
      evaluated.values[i].resize(static_cast<std::size_t>(item.shape[0]));
      rank_losses(changed, walked, evaluated.values[i], evaluated.others[i]);
    }
    if (item.kind != Kind::gradient) continue;
    evaluated.values[i] = gradients.at(item.parameter_name);
    for (double& value : evaluated.values[i]) value *= factor;
  }
  const auto size = [](const Walked& one) {
    double squares = 0;
    for (const Values& values : one.gradients) squares += std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
    return std::sqrt(squares);
  };
  evaluated.growth = std::max(1.0, size(walked) / size(walked_));
  if (updates) answer_updates(changed, given_.empty() ? gradients : given_, evaluated);
  return evaluated;
}

/// The sum of squares of the gradients in one rank's file, or in several. 0: the way takes its norm elsewhere.
double Step::squares_of_files(const Case& changed) const {
  const Clip clip = changed.update.clip;
  if (clip != Clip::by_place && clip != Clip::all_files) return 0;
  double squares = 0;
  std::array<std::int64_t, 4> place{};
  place[changed.update.part_of] = changed.update.part.number;
  for (const PieceOf& of : pieces_) {
    if (items_[of.item].kind != Kind::gradient) continue;
    const std::array<std::int64_t, 4>& own = dump_.ranks[piece(of).rank].place;
    const bool copied = of.piece > 0 && items_[of.item].tensor->pieces[of.piece - 1].indices == piece(of).indices;
    const bool mine = own == place && (changed.update.copies || !copied), first = own[dp] == 0 && own[cp] == 0;
    if (clip == Clip::by_place ? !mine : !first) continue;
    for (const double value : piece(of).values) squares += value * value;
  }
  return squares;
}

double Step::norm_of(const Case& changed, const std::map<std::string, Values>& gradients) const {
  double squares = squares_of_files(changed);
  if (squares > 0) return std::sqrt(squares);
  for (const auto& [name, values] : gradients) {
    const ParameterMeaning& parameter = *names_->parameter(name);
    const std::int64_t rows = parameter.shape[0], columns = std::ssize(values) / rows;
    const auto found = dump_.tensors.find("gradient." + name);  // ranks' files say what is divided
    const bool files = found != dump_.tensors.end() && dump_.ranks.size() > 1;
    const bool copied = files ? found->second.pieces.front().values.size() == values.size() : parameter.replicated;
    const bool counted = changed.update.clip == Clip::copies_counted && copied;
    for (std::int64_t i = 0; i < std::ssize(values); ++i) {
      if (changed.update.clip == Clip::by_part && !in_rows(changed.update.part, i / columns, rows)) continue;
      const double value = values[static_cast<std::size_t>(i)];
      squares += value * value * (counted ? changed.facts.tp : 1);
    }
  }
  return std::sqrt(squares) * (changed.update.clip == Clip::before_unscaling ? changed.facts.loss_scale : 1);
}

/// Squares are added in float, of gradients as they are stored, or as they may be.
double Step::norm_tolerance(const Item& item, double norm, const std::map<std::string, Values>& gradients, double growth) const {
  double elements = 0, error = 0;
  for (const auto& [name, values] : gradients) {
    elements += static_cast<double>(values.size());
    error += std::pow(gradient_peak_.at(name), 2) * static_cast<double>(values.size());
  }
  const double unit = std::max(unit_of(item.tensor->dtype), given_.empty() ? 0.0 : stored_unit_);
  return norm * 4 * (unit + std::sqrt(elements) * float_unit) + (given_.empty() ? std::sqrt(error) * growth : 0);
}

void Step::answer_updates(const Case& changed, const std::map<std::string, Values>& gradients, Evaluated& evaluated) const {
  const bool clips = changed.update.clip != Clip::none && !(dump_.facts.clipped && !given_.empty());
  const double norm = norm_of(changed, gradients);
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    if (item.kind == Kind::norm) {
      evaluated.values[i] = {norm};
      evaluated.tolerances[i] = {norm_tolerance(item, norm, gradients, evaluated.growth)};
    }
    if (item.kind != Kind::slot && item.kind != Kind::weight) continue;
    if (dump_.frozen.contains(item.parameter_name)) {
      evaluated.values[i] = before(*item.parameter);
      for (const double value : evaluated.values[i])
        evaluated.tolerances[i].push_back(unit_of(item.tensor->dtype) * std::abs(value));
      continue;
    }
    const Values gradient = clipped_elements(gradients.at(item.parameter_name), changed);
    double factor = clips && changed.update.clip != Clip::by_element ? clip_factor(norm, changed.facts) : 1;
    if (changed.update.clip == Clip::by_tensor)
      factor = clip_factor(norm_of(right_, {{item.parameter_name, gradient}}), changed.facts);
    answer_update(item, changed, gradient, factor, evaluated.growth, evaluated.values[i], evaluated.tolerances[i]);
    const bool asked = item.kind == Kind::weight || changed.facts.decay_in_gradient;
    if (!asked || item.parameter->decays || !changed.facts.decay.empty()) continue;
    Case other = changed;  // nothing says whether gains and biases decay
    other.update.decay = Decay::all;
    Values more;
    answer_update(item, other, gradient, factor, evaluated.growth, evaluated.others[i].emplace_back(), more);
    std::ranges::transform(more, evaluated.tolerances[i], evaluated.tolerances[i].begin(), std::ranges::max);
  }
}

/// One tensor's moments or weights, and how far each element may be off. Gradients a little larger and smaller show what their
/// rounding does. The rest is the rounding of the update itself.
void Step::answer_update(const Item& item, const Case& changed, const Values& gradient, double factor, double growth,
                         Values& value, Values& tolerance) const {
  const ParameterMeaning& parameter = *item.parameter;
  const auto moment = [&](std::string_view kind) {
    return slot("slot_before", kind, item.parameter_name).value_or(Values(gradient.size()));
  };
  const Before start{before(parameter), gradient, moment("exp_avg"), moment("exp_avg_sq"), parameter.decays};
  const auto made = [&](double direction) {
    Before moved = start;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double error = given_.empty() ? gradient_peak_.at(item.parameter_name) * growth
                                          : std::abs(gradient[i]) * 4 * (stored_unit_ + 1e3 * float_unit);
      moved.gradient[i] += direction * error;
    }
    After after = update(moved, changed.facts, changed.update, factor);
    return item.slot == "exp_avg" ? after.exp_avg : item.slot == "exp_avg_sq" ? after.exp_avg_sq : after.weights;
  };
  value = made(0);
  const Values more = made(1), less = made(-1);
  const double unit = unit_of(item.tensor->dtype);
  tolerance.resize(value.size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    const double moved = std::max(std::abs(more[i] - value[i]), std::abs(less[i] - value[i]));
    const double old = item.slot == "exp_avg"      ? start.exp_avg[i]
                       : item.slot == "exp_avg_sq" ? start.exp_avg_sq[i]
                                                   : start.weights[i];
    const double change = std::abs(value[i] - old);
    tolerance[i] = moved + unit * (2 * std::abs(value[i]) + 4 * std::abs(old) + 16 * change) + 1e-38;
  }
}

}  // namespace lockstep::lab::against
