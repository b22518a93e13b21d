// Wrong ways to clip a gradient and to update weights.

#include <cmath>

#include "lab/against/way_parts.h"

namespace lockstep::lab::against {
namespace {

List when_clipped(const Case& c) { return when(c.facts.clip >= 0); }
List when_decaying(const Case& c) { return when(c.facts.weight_decay > 0); }
auto clip_by(Clip clip) {
  return [clip](Case& c, double) { c.update.clip = clip; };
}
auto decay_by(Decay decay) {
  return [decay](Case& c, double) { c.update.decay = decay; };
}

}  // namespace

std::vector<Way> update_ways() {
  std::vector<Way> ways{
      {"not-clipped", "the gradient is not clipped", when_clipped, clip_by(Clip::none)},
      {"clipped-by-tensor", "each tensor is clipped by its own norm", when_clipped, clip_by(Clip::by_tensor)},
      by_rank(dp, "own-norm", "the norm is that of dp rank {}'s part of the gradient, not of all parts",
              [](Case& c, double r) {
                c.update.clip = Clip::by_part;
                c.update.part = {static_cast<std::int64_t>(r), static_cast<std::int64_t>(c.facts.dp)};
              }),
      by_rank(tp, "own-norm", "the norm is that of tp rank {}'s part of the gradient, not of all parts",
              [](Case& c, double r) {
                c.update.clip = Clip::by_tensor_rank;
                c.update.part.number = static_cast<std::int64_t>(r);
              }),
      {"copies-counted", "the norm counts what every tensor rank holds {} times",
       [](const Case& c) { return when(c.facts.tp > 1, {c.facts.tp}); }, clip_by(Clip::copies_counted)},
      {"clipped-before-unscaling", "the norm is that of the gradient with its loss scale {}",
       [](const Case& c) { return when(c.facts.loss_scale != 1, {c.facts.loss_scale}); }, clip_by(Clip::before_unscaling)},
      {"decay-on-all", "gains and biases decay too",
       [](const Case& c) { return when(c.facts.decay == "matrices" && c.facts.weight_decay > 0); }, decay_by(Decay::all)},
      {"no-decay", "weights do not decay", when_decaying, decay_by(Decay::none)},
      {"decay-in-gradient", "the decay is added to the gradient: this is Adam, not AdamW",
       [](const Case& c) { return when(c.facts.weight_decay > 0 && !c.facts.decay_in_gradient); }, decay_by(Decay::other_rule)},
      {"decay-beside-gradient", "the decay is not added to the gradient: this is AdamW, not Adam",
       [](const Case& c) { return when(c.facts.weight_decay > 0 && c.facts.decay_in_gradient); }, decay_by(Decay::other_rule)},
      {"decay-without-rate", "the decay is not multiplied by the learning rate",
       [](const Case& c) { return when(c.facts.weight_decay > 0 && !c.facts.decay_in_gradient); }, decay_by(Decay::without_rate)},
      {"not-corrected", "Adam's moments are not corrected for their start at zero", once,
       [](Case& c, double) { c.update.corrected = false; }},
      {"correction-off-by-one", "Adam's correction counts one update too {}",
       [](const Case& c) { return c.facts.step > 1 ? List{-1, 1} : List{1}; },
       [](Case& c, double shift) { c.update.correction_shift = shift; },
       [](double shift) { return std::string(shift < 0 ? "few" : "many"); }},
      {"epsilon-inside-root", "Adam's epsilon is added inside the root", once,
       [](Case& c, double) { c.update.eps_inside_root = true; }},
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
  for (Way& way : ways) way.scope = Scope::update;
  return ways;
}

}  // namespace lockstep::lab::against
