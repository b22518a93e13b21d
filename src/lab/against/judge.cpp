#include "lab/against/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "checkpoint/huggingface/elements.h"
#include "tensor/bfloat16.h"

namespace lockstep::lab::against {
namespace {

using Pieces = std::vector<std::size_t>;  // their numbers

double length_of(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

std::size_t worst_element(const Values& found, const Values& expected) {
  std::size_t worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::abs(found[i] - expected[i]) > std::abs(found[worst] - expected[worst])) worst = i;
  }
  return worst;
}

/// A trial of one way with one value: which pieces it fits.
struct Trial {
  const Way* way;
  double value;
  std::vector<double> excess = {};
};

class Judge {
 public:
  Judge(const Step& step, Team& team) : step_(step), team_(team) {
    for (const PieceOf& piece : step.pieces()) right_.push_back(step.excess(piece, step.answer()));
  }

  Judgement run() {
    Judgement judgement{.judged = step_.items().size()};
    Pieces passes, update;
    for (std::size_t p = 0; p < right_.size(); ++p) {
      if (right_[p] <= 1) judgement.worst = std::max(judgement.worst, right_[p]);
      if (right_[p] <= 1) continue;
      (kind_of(p) >= Kind::norm && step_.has_gradients() ? update : passes).push_back(p);
    }
    if (differing_copy(Kind::gradient) > 0) update.clear();  // the dump's gradients are several
    for (const Pieces& wrong : {passes, update}) {
      if (!wrong.empty()) judgement.faults.push_back(explain(wrong));
    }
    remark(judgement);
    return judgement;
  }

 private:
  Kind kind_of(std::size_t p) const { return item_of(p).kind; }
  const Item& item_of(std::size_t p) const { return step_.items()[step_.pieces()[p].item]; }
  const Piece& piece(std::size_t p) const { return step_.piece(step_.pieces()[p]); }
  Values right_at(std::size_t p) const {
    return step_.at_piece(step_.pieces()[p], step_.answer().values[step_.pieces()[p].item]);
  }
  const Rank& rank_of(std::size_t p) const { return step_.dump().ranks[piece(p).rank]; }

  Finding finding(std::size_t p) const {
    const Values &found = piece(p).values, expected = right_at(p);
    Values error = found;
    for (std::size_t i = 0; i < error.size(); ++i) error[i] -= expected[i];
    const std::size_t worst = worst_element(found, expected);
    const double size = length_of(expected), off = length_of(error) / (size > 0 ? size : 1);
    return {item_of(p).name, rank_of(p).name, off, off / right_[p],
            fmt::format("{:.6g}{}, where {:.6g} is right", found[worst],
                        found.size() == 1 ? "" : " at " + place_text(static_cast<std::int64_t>(worst), piece(p).shape),
                        expected[worst])};
  }

  Fault explain(const Pieces& wrong) {
    Fault fault;
    for (const std::size_t p : wrong) fault.wrong.push_back(finding(p));
    for (const auto& special :
         {&Judge::other_weights, &Judge::untied, &Judge::flipped_bit, &Judge::other_tokens, &Judge::dropout}) {
      if (auto cause = (this->*special)(wrong)) return fault.causes.push_back(std::move(*cause)), fault;
    }
    std::vector<Trial> trials = trials_for(wrong);
    team_.for_each(std::ssize(trials), [&](std::int64_t i, int) { make(trials[static_cast<std::size_t>(i)]); });
    fault.tried = trials.size();
    for (auto first = trials.begin(); first != trials.end();) {
      const auto end = std::find_if(first, trials.end(), [&](const Trial& one) { return one.way != first->way; });
      for (auto trial = first; trial != end; ++trial)
        consider(fault, wrong, *trial->way, shown(*trial), [&](std::size_t p) { return trial->excess[p]; });
      if (first->way->rank != no_dimension && step_.dump().ranks.size() > 1 && fault.causes.empty()) {
        consider(fault, wrong, *first->way, "r (each rank its own)", [&](std::size_t p) {
          const std::int64_t place = rank_of(p).place[first->way->rank];
          return place < end - first ? first[place].excess[p] : std::numeric_limits<double>::infinity();
        });
      }
      first = end;
    }
    const auto bare = [](const Cause& cause) { return cause.word == "gradient-times" || cause.word == "rate-times"; };
    if (!std::ranges::all_of(fault.causes, bare)) std::erase_if(fault.causes, bare);  // a factor that has a reason
    std::ranges::stable_sort(fault.causes, {}, [](const Cause& cause) { return std::pair(cause.rest_open, cause.only.size()); });
    std::ranges::stable_sort(fault.nearest, {}, &Cause::excess);
    fault.nearest.resize(fault.causes.empty() ? std::min<std::size_t>(fault.nearest.size(), 3) : 0);
    return fault;
  }

  static std::string shown(const Trial& trial) {
    return trial.way->shown ? trial.way->shown(trial.value) : fmt::format("{:.6g}", trial.value);
  }

  /// Ways that may explain the first wrong tensor: the update's change nothing before it.
  std::vector<Trial> trials_for(const Pieces& wrong) const {
    const bool update = kind_of(wrong.front()) >= Kind::norm;
    Case c = step_.right();
    c.gradient_ratio = ratio(wrong, Kind::gradient);
    c.rate_ratio = ratio(wrong, Kind::weight);
    std::vector<Trial> trials;
    for (const Way& way : all_ways()) {
      const bool in_passes = way.scope != Scope::update;
      if (in_passes ? update && step_.has_gradients() : !update) continue;
      for (const double value : way.values(c)) trials.push_back({&way, value});
    }
    return trials;
  }

  /// What the first wrong gradient, or change of weights, is of the right one; 1 where there is none.
  double ratio(const Pieces& wrong, Kind kind) const {
    const auto p = std::ranges::find(wrong, kind, [&](std::size_t one) { return kind_of(one); });
    if (p == wrong.end()) return 1;
    Values found = piece(*p).values, expected = right_at(*p);
    if (kind == Kind::weight) {
      const Values before = step_.at_piece(step_.pieces()[*p], step_.before(*item_of(*p).parameter));
      for (std::size_t i = 0; i < found.size(); ++i) found[i] -= before[i], expected[i] -= before[i];
    }
    double product = 0;
    for (std::size_t i = 0; i < found.size(); ++i) product += found[i] * expected[i];
    const double squares = std::pow(length_of(expected), 2);
    return squares > 0 ? product / squares : 1;
  }

  void make(Trial& trial) const {
    Case c = step_.right();
    trial.way->change(c, trial.value);
    const bool walks = trial.way->scope != Scope::update;
    const Evaluated evaluated = step_.evaluate(c, walks);
    for (std::size_t p = 0; p < right_.size(); ++p) {
      const bool left_out = walks && step_.has_gradients() && kind_of(p) >= Kind::norm;
      double excess = left_out ? right_[p] : step_.excess(step_.pieces()[p], evaluated);
      // A gradient may be wrong in a way in which the loss that is told is not.
      if (kind_of(p) == Kind::loss || kind_of(p) == Kind::rank_loss) excess = std::min(excess, right_[p]);
      trial.excess.push_back(std::isnan(excess) ? std::numeric_limits<double>::infinity() : excess);
    }
  }

  /// Whether a way must explain a piece.
  bool asks(const Way& way, const Pieces& wrong, std::size_t p) const {
    if (way.scope == Scope::first) return step_.pieces()[p].item == step_.pieces()[wrong.front()].item;
    return way.scope != Scope::forward || kind_of(p) <= Kind::loss;
  }

  template <class Excess>
  void consider(Fault& fault, const Pieces& wrong, const Way& way, const std::string& value, const Excess& excess) const {
    Cause cause{way.word, fmt::format(fmt::runtime(way.sentence), value)};
    std::size_t explained = 0, asked = 0;
    for (const std::size_t p : wrong) {
      if (!asks(way, wrong, p)) continue;
      ++asked;
      explained += excess(p) <= 1 ? 1 : 0;
      cause.excess = std::max(cause.excess, excess(p));
    }
    cause.rest_open = way.scope == Scope::forward || way.scope == Scope::first;
    if (explained < asked || asked == 0) {
      cause.excess = asked == 0 ? 1 : 1 - static_cast<double>(explained) / static_cast<double>(asked);
      if (cause.excess < 1) fault.nearest.push_back(std::move(cause));
      return;
    }
    const bool update = way.scope == Scope::update;
    for (std::size_t p = 0; p < right_.size(); ++p) {
      if (right_[p] > 1 || excess(p) <= 1 || !asks(way, wrong, p) || update != (kind_of(p) >= Kind::norm)) continue;
      for (const std::size_t one : wrong) cause.only.push_back(item_of(one).name);
      break;
    }
    fault.causes.push_back(std::move(cause));
  }

  std::optional<Cause> other_weights(const Pieces& wrong) const {
    const Rank& rank = rank_of(wrong.front());
    if (!rank.other_weights) return std::nullopt;
    return Cause{"other-weights",
                 fmt::format("{} begins with other weights than the first rank: they were not sent to all", rank.name),
                 0,
                 {},
                 true};
  }

  /// The head's own matrix is a fact of the dump, which the model does not have.
  std::optional<Cause> untied(const Pieces& wrong) const {
    const Item& first = item_of(wrong.front());
    const bool at_head = first.kind == Kind::activation && first.activation->spot.first >= Place::head;
    if (!at_head || !step_.right().question.config.tied || !step_.dump().tensors.contains("weight.lm_head.weight")) return {};
    return Cause{"head-untied", "the head has other weights than the token table, to which the config ties it", 0, {}, true};
  }

  /// One element alone is off, by one bit of how it is stored.
  std::optional<Cause> flipped_bit(const Pieces& wrong) const {
    const std::size_t p = wrong.front();
    const Values &found = piece(p).values, expected = right_at(p);
    if (found.size() < 16 || right_[p] < 8) return std::nullopt;  // a number alone may as well be twice as large
    const std::size_t worst = worst_element(found, expected);
    const std::string& dtype = item_of(p).tensor->dtype;
    const double value = found[worst], peak = step_.peak(step_.pieces()[p].item) + 4 * unit_of(dtype) * std::abs(expected[worst]);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (i != worst && std::abs(found[i] - expected[i]) > peak + 4 * unit_of(dtype) * std::abs(expected[i])) return std::nullopt;
    }
    const auto as_float = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    const int bits = dtype == "F32" ? 32 : dtype == "BF16" || dtype == "F16" ? 16 : 0;
    for (int bit = 0; bit < bits; ++bit) {
      float flipped = std::bit_cast<float>(as_float ^ 1U << (dtype == "BF16" ? bit + 16 : bit));
      if (dtype == "F16") {
        const auto half = static_cast<std::uint16_t>(checkpoint::huggingface::to_float16(static_cast<float>(value)));
        flipped = to_float(static_cast<checkpoint::huggingface::Float16>(half ^ 1U << bit));
      }
      if (!(std::abs(static_cast<double>(flipped) - expected[worst]) <= peak)) continue;
      return Cause{"flipped-bit",
                   fmt::format("bit {} of one element, at {}, is flipped: all others agree", bit,
                               place_text(static_cast<std::int64_t>(worst), piece(p).shape)),
                   0,
                   {item_of(p).name},
                   wrong.size() > 1};
    }
    return std::nullopt;
  }

  /// Rows behind the embedding are those of other tokens.
  std::optional<Cause> other_tokens(const Pieces& wrong) const {
    const std::size_t p = wrong.front();
    if (kind_of(p) != Kind::activation || item_of(p).activation->spot.first != Place::embedding) return std::nullopt;
    const Question& question = step_.right().question;
    const std::size_t width = static_cast<std::size_t>(question.config.width);
    const Values &found = piece(p).values, expected = right_at(p);
    const auto table = std::ranges::max_element(*question.weights, {}, [&](const Values& one) {
      return one.size() == width * static_cast<std::size_t>(question.config.vocabulary) ? one.size() : 0;
    });
    const double peak = step_.peak(step_.pieces()[p].item);
    const std::vector<std::int64_t> places = piece(p).places(item_of(p).shape);
    std::string said;
    for (std::size_t row = 0; row < found.size() / width; ++row) {
      const std::int64_t place = places[row * width] / question.config.width;
      const auto token = static_cast<std::size_t>(question.batch.tokens[static_cast<std::size_t>(place)]);
      const auto is = [&](std::size_t other) {
        for (std::size_t j = 0; j < width; ++j) {
          const double value = expected[row * width + j] - (*table)[token * width + j] + (*table)[other * width + j];
          if (std::abs(found[row * width + j] - value) > peak + 4 * unit_of(step_.dtype()) * std::abs(value)) return false;
        }
        return true;
      };
      if (is(token)) continue;
      std::size_t other = 0;
      while (other < static_cast<std::size_t>(question.config.vocabulary) && !is(other)) ++other;
      if (other == static_cast<std::size_t>(question.config.vocabulary)) return std::nullopt;
      if (said.empty())
        said = fmt::format("at {} {} and not {}", place_text(place, {question.batch.rows, question.batch.columns}), other, token);
    }
    return Cause{"other-tokens", fmt::format("the step read other tokens than the dump has: {}", said), 0, {}, true};
  }

  /// Some elements are zero and the others larger, all by one factor.
  std::optional<Cause> dropout(const Pieces& wrong) const {
    const std::size_t p = wrong.front();
    if (kind_of(p) != Kind::activation) return std::nullopt;
    const Values &found = piece(p).values, expected = right_at(p);
    Values ratios;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i] != 0 && expected[i] != 0) ratios.push_back(found[i] / expected[i]);
    }
    if (ratios.empty()) return std::nullopt;
    std::ranges::nth_element(ratios, ratios.begin() + std::ssize(ratios) / 2);
    const double factor = ratios[ratios.size() / 2], peak = step_.peak(step_.pieces()[p].item);
    double zeros = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double value = expected[i] * factor;
      if (found[i] == 0) ++zeros;
      if (found[i] != 0 && std::abs(found[i] - value) > factor * peak + 8 * unit_of(step_.dtype()) * std::abs(value))
        return std::nullopt;
    }
    const double share = zeros / static_cast<double>(found.size());
    if (factor < 1.0001 || std::abs(share - (1 - 1 / factor)) > 0.1) return std::nullopt;
    return Cause{"dropout",
                 fmt::format("dropout is on: {:.1f} % of the elements are zero, the others are {:.4g} times the right ones",
                             100 * share, factor),
                 0,
                 {},
                 true};
  }

  /// The first piece of that kind that is another file's copy of the one before it, and differs; 0 where none does.
  std::size_t differing_copy(Kind kind) const {
    for (std::size_t p = 1; p < right_.size(); ++p) {
      const bool copies = step_.pieces()[p].item == step_.pieces()[p - 1].item && piece(p).indices == piece(p - 1).indices;
      if (copies && kind_of(p) == kind && piece(p).values != piece(p - 1).values) return p;
    }
    return 0;
  }

  void remark(Judgement& judgement) const {
    for (const Kind kind : {Kind::gradient, Kind::weight}) {
      const std::size_t p = differing_copy(kind);
      if (p == 0) continue;
      judgement.remarks.push_back(fmt::format("{} and {} have different values of {}, of which each has a copy{}",
                                              rank_of(p - 1).name, rank_of(p).name, item_of(p).name,
                                              kind == Kind::gradient ? ": their norms and updates are not judged" : ""));
    }
    std::size_t decaying = 0;
    for (std::size_t p = 0; p < right_.size(); ++p) {
      const Item& item = item_of(p);
      if (item.kind != Kind::weight || right_[p] > 1 || item.parameter->decays) continue;
      Evaluated strict = step_.answer();
      strict.others[step_.pieces()[p].item].clear();
      decaying += step_.excess(step_.pieces()[p], strict) > 1 ? 1 : 0;
    }
    if (decaying > 0) {
      judgement.remarks.push_back(fmt::format(
          "weight decay acts on {} gains and biases too; nothing says whether it should (\"decay\": \"matrices\" or \"all\")",
          decaying));
    }
  }

  const Step& step_;
  Team& team_;
  std::vector<double> right_;  // of each piece, how far it is from the right answer
};

}  // namespace

Judgement judge(const Step& step, Team& team) { return Judge(step, team).run(); }

}  // namespace lockstep::lab::against
