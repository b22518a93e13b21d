// Wrong ways to clip a gradient and to update weights.

#include <cmath>
#include <utility>

#include "lab/against/way_parts.h"

namespace lockstep::lab::against {
namespace {

List when_clipped(const Case& c) { return when(c.facts.clip >= 0); }
List when_decaying(const Case& c) { return when(c.facts.weight_decay > 0); }
List when_decoupled(const Case& c) { return when(c.facts.weight_decay > 0 && !c.facts.decay_in_gradient); }
auto clip_by(Clip clip) {
  return [clip](Case& c, double) { c.update.clip = clip; };
}
void clip_by_rank(Case& c, Dimension dimension, double number) {
  c.update.clip = Clip::by_place;
  c.update.part.number = static_cast<std::int64_t>(number);
  c.update.part_of = dimension;
}
auto decay_by(Decay decay) {
  return [decay](Case& c, double) { c.update.decay = decay; };
}

std::vector<Way> norm_ways() {
  return {
      {"not-clipped", "the gradient is not clipped", when_clipped, clip_by(Clip::none)},
      {"clipped-by-element", "each element is clipped, not the norm of all", when_clipped, clip_by(Clip::by_element)},
      {"clipped-by-tensor", "each tensor is clipped by its own norm", when_clipped, clip_by(Clip::by_tensor)},
      by_rank(dp, "own-norm", "the norm is that of dp rank {}'s part of the gradient, not of all parts",
              [](Case& c, double r) {
                c.update.clip = Clip::by_part;
                c.update.part = {static_cast<std::int64_t>(r), static_cast<std::int64_t>(c.facts.dp)};
              }),
      by_rank(tp, "own-norm", "the norm is that of tp rank {}'s part of the gradient, not of all parts",
              [](Case& c, double r) { clip_by_rank(c, tp, r); }),
      by_rank(pp, "own-norm", "the norm is that of stage {}'s part of the gradient, not of all stages'",
              [](Case& c, double r) { clip_by_rank(c, pp, r); }),
      by_rank(pp, "own-norm-without-copies", "the norm is that of stage {}'s part of the gradient, of the tied table only in one",
              [](Case& c, double r) {
                clip_by_rank(c, pp, r);
                c.update.copies = false;
              }),
      {"stage-copies-counted", "the norm counts what several of the {} stages hold once for each: the tied table",
       size_of(&Facts::pp), clip_by(Clip::all_files)},
      {"copies-counted", "the norm counts what every tensor rank holds {} times",
       [](const Case& c) { return when(c.facts.tp > 1, {c.facts.tp}); }, clip_by(Clip::copies_counted)},
      {"clipped-before-unscaling", "the norm is that of the gradient with its loss scale {}",
       [](const Case& c) { return when(c.facts.loss_scale != 1, {c.facts.loss_scale}); }, clip_by(Clip::before_unscaling)},
  };
}

std::vector<Way> decay_ways() {
  return {
      {"decay-on-all", "gains and biases decay too",
       [](const Case& c) { return when(c.facts.decay == "matrices" && c.facts.weight_decay > 0); }, decay_by(Decay::all)},
      {"no-decay", "weights do not decay", when_decaying, decay_by(Decay::none)},
      {"decay-in-gradient", "the decay is added to the gradient: this is Adam, not AdamW", when_decoupled,
       decay_by(Decay::other_rule)},
      {"decay-beside-gradient", "the decay is not added to the gradient: this is AdamW, not Adam",
       [](const Case& c) { return when(c.facts.weight_decay > 0 && c.facts.decay_in_gradient); }, decay_by(Decay::other_rule)},
      {"decay-without-rate", "the decay is not multiplied by the learning rate", when_decoupled, decay_by(Decay::without_rate)},
      {"decays-twice", "weights decay twice", when_decoupled, decay_by(Decay::twice)},
      {"decay-behind", "weights decay behind the rest of the update, not before it", when_decoupled, decay_by(Decay::behind)},
  };
}

std::vector<Way> adam_ways() {
  return {
      {"not-corrected", "Adam's moments are not corrected for their start at zero", once,
       [](Case& c, double) { c.update.mean_corrected = c.update.square_corrected = false; }},
      {"mean-not-corrected", "Adam's first moment is not corrected for its start at zero", once,
       [](Case& c, double) { c.update.mean_corrected = false; }},
      {"square-not-corrected", "Adam's second moment is not corrected for its start at zero", once,
       [](Case& c, double) { c.update.square_corrected = false; }},
      {"correction-off-by-one", "Adam's correction counts one update too {}",
       [](const Case& c) { return c.facts.step > 1 ? List{-1, 1} : List{1}; },
       [](Case& c, double shift) { c.update.correction_shift = shift; },
       [](double shift) { return std::string(shift < 0 ? "few" : "many"); }},
      {"correction-from-1", "Adam's correction counts updates from 1 again: their number was lost",
       [](const Case& c) { return when(c.facts.step > 2); },
       [](Case& c, double) { c.update.correction_shift = 1 - c.facts.step; }},
      {"epsilon-inside-root", "Adam's epsilon is added inside the root", once,
       [](Case& c, double) { c.update.eps_inside_root = true; }},
      {"epsilon-before-correction", "Adam's epsilon is added before the second moment is corrected for its start at zero", once,
       [](Case& c, double) { c.update.eps_before_correction = true; }},
      {"betas-swapped", "Adam's betas are swapped", [](const Case& c) { return when(c.facts.beta1 != c.facts.beta2); },
       [](Case& c, double) { std::swap(c.facts.beta1, c.facts.beta2); }},
      {"beta2", "Adam's second beta is {}",
       [](const Case& c) {
         List betas{0.95, 0.98, 0.99, 0.999};
         std::erase_if(betas, [&](double beta) { return std::abs(beta - c.facts.beta2) < 1e-9; });
         return betas;
       },
       [](Case& c, double beta) { c.facts.beta2 = beta; }},
      {"rate-of-step-before", "the learning rate is that of the step before, {}",
       [](const Case& c) {
         const double rate = c.facts.previous_learning_rate;
         return when(rate >= 0 && rate != c.facts.learning_rate, {rate});
       },
       [](Case& c, double rate) { c.facts.learning_rate = rate; }},
      {"updated-twice", "the update is made twice", once, [](Case& c, double) { c.update.times = 2; }},
      {"not-updated", "the update is not made", once, [](Case& c, double) { c.update.times = 0; }},
      {"rate-times", "the update is {} times the right one: so is the learning rate",
       [](const Case& c) { return when(c.rate_ratio != 1, {c.rate_ratio}); }, [](Case& c, double n) { c.update.rate_times = n; }},
  };
}

}  // namespace

std::vector<Way> update_ways() {
  std::vector<Way> ways = norm_ways();
  for (const auto& more : {decay_ways(), adam_ways()}) ways.insert(ways.end(), more.begin(), more.end());
  for (Way& way : ways) way.scope = Scope::update;
  return ways;
}

}  // namespace lockstep::lab::against
