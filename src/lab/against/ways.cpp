#include "lab/against/ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "lab/against/way_parts.h"

namespace lockstep::lab::against {
namespace {

bool has_untaught(const Case& c) { return std::ranges::min(c.question.batch.targets) < 0; }

/// The position that a context rank has behind this one; -1: it is the last.
std::int64_t next_of_rank(const Case& c, std::int64_t t, bool zigzag) {
  std::int64_t next = t + 1;
  while (next < c.question.batch.columns && context_rank(c, next, zigzag) != context_rank(c, t, zigzag)) ++next;
  return next < c.question.batch.columns ? next : -1;
}
/// The shares of taught tokens become share(row, position, the share).
template <class Share>
void share(Case& c, const Share& rule) {
  Question& q = c.question;
  for (std::int64_t i = 0; i < std::ssize(q.shares); ++i) {
    double& one = q.shares[at(i)];
    if (q.batch.targets[at(i)] >= 0) one = rule(i / q.batch.columns, i % q.batch.columns, one);
  }
  q.loss_shares = q.shares;
}
void multiply(Case& c, double n) {
  share(c, [n](auto, auto, double one) { return one * n; });
}

/// Takes the rows for which `takes` holds; `mean`: and divides by the number of their targets.
template <class Takes>
void take_rows(Case& c, const Takes& takes, bool mean = false) {
  share(c, [&](auto row, auto, double one) { return takes(row) ? one : 0; });
  const double sum = std::accumulate(c.question.shares.begin(), c.question.shares.end(), 0.0);
  if (mean && sum > 0) multiply(c, 1 / sum);
}

/// The mean of the means of groups, each token's group(row, position).
template <class Group>
void mean_of_means(Case& c, const Group& group) {
  std::map<double, double> counts;
  const Batch& batch = c.question.batch;
  for (std::int64_t i = 0; i < std::ssize(batch.targets); ++i)
    counts[static_cast<double>(group(i / batch.columns, i % batch.columns))] += batch.targets[at(i)] >= 0 ? 1 : 0;
  share(c, [&](auto row, auto t, double) {
    return 1 / (counts[static_cast<double>(group(row, t))] * static_cast<double>(counts.size()));
  });
}

/// New targets, from the old ones and their places.
template <class Target>
void teach(Case& c, const Target& target) {
  Batch& batch = c.question.batch;
  const std::vector<std::int64_t> old = batch.targets;
  for (std::int64_t i = 0; i < std::ssize(old); ++i)
    batch.targets[at(i)] = target(old, i, i % batch.columns == 0, (i + 1) % batch.columns == 0);
  share_alike(c.question);
}

/// Tokens that programs take for marks: the first ones and the last one.
template <class Holds>
List marks(const Case& c, const Holds& holds) {
  List list{0, 1, 2, static_cast<double>(c.question.config.vocabulary - 1)};
  std::erase_if(list, [&](double one) { return !holds(static_cast<std::int64_t>(one)); });
  return list;
}
List when_clipped(const Case& c, double Facts::* parts, List list = {1}) {
  return when(c.facts.clip > 0 && c.facts.*parts > 1 && c.facts.*parts <= 32, std::move(list));
}
auto clip_early(Early early) {
  return [early](Case& c, double scale) { c.early = early, c.early_scale = scale; };
}

List has_previous(const Case& c) { return when(c.previous_gradients != nullptr); }

/// Tokens that count wrongly.
std::vector<Way> token_ways() {
  return {
      {"micro-batch-means", "the loss is the mean of the micro-batches' means, which have different numbers of targets",
       [](const Case& c) { return when(c.facts.micro_batches > 1); },
       [](Case& c, double) { mean_of_means(c, [&](auto row, auto) { return unit_of_row(c, row); }); }},
      {"rank-means", "the loss is the mean of the dp ranks' means, which have different numbers of targets", size_of(&Facts::dp),
       [](Case& c, double) { mean_of_means(c, [&](auto row, auto) { return rank_of_row(c, row); }); }},
      {"sample-means", "the loss is the mean of the samples' means, which have different numbers of targets", once,
       [](Case& c, double) { mean_of_means(c, [](auto row, auto) { return row; }); }},
      {"context-means",
       "the loss is the mean of each cp rank's and micro-batch's means ({}), which have different numbers of targets",
       in_either_order,
       [](Case& c, double zigzag) {
         mean_of_means(c, [&](auto row, auto t) {
           return unit_of_row(c, row) * c.facts.cp + static_cast<double>(context_rank(c, t, zigzag != 0));
         });
       },
       order_name},
      {"padding-counted", "the sum of losses is divided by {} tokens: those that are not taught are counted",
       [](const Case& c) {
         const auto rows = static_cast<double>(c.question.batch.rows), all = rows * static_cast<double>(c.question.batch.columns);
         return when(has_untaught(c), {all, all - rows});
       },
       [](Case& c, double count) { share(c, [count](auto, auto, double) { return 1 / count; }); }},
      {"prompt-taught", "tokens whose targets are masked (padding or a prompt) are taught too",
       [](const Case& c) { return when(has_untaught(c)); },
       [](Case& c, double) {
         teach(c, [&](const auto& old, auto i, bool, bool last) {
           return old[at(i)] >= 0 || last ? old[at(i)] : c.question.batch.tokens[at(i + 1)];
         });
       }},
      {"sum-for-mean", "the losses are added and not divided by the number of targets", once,
       [](Case& c, double) { share(c, [](auto, auto, double) { return 1.0; }); }},
  };
}

/// Tokens that are taught others than they should be.
std::vector<Way> label_ways() {
  return {
      {"target-ignored", "targets that are token {} are not taught: it is taken for the mark of what is not (ignore_index)",
       [](const Case& c) {
         return marks(c, [&](auto token) { return std::ranges::count(c.question.batch.targets, token) > 0; });
       },
       [](Case& c, double token) {
         teach(c,
               [=](const auto& old, auto i, bool, bool) { return static_cast<double>(old[at(i)]) == token ? -1 : old[at(i)]; });
       }},
      {"masked-as-token", "targets that are masked are taught as token {}",
       [](const Case& c) { return marks(c, [&](auto) { return has_untaught(c); }); },
       [](Case& c, double token) {
         teach(c, [=](const auto& old, auto i, bool, bool) {
           return old[at(i)] < 0 ? static_cast<std::int64_t>(token) : old[at(i)];
         });
       }},
      {"labels-shifted-twice", "the labels are shifted twice: each token is taught the one after its next", once,
       [](Case& c, double) { teach(c, [](const auto& old, auto i, bool, bool last) { return last ? -1 : old[at(i + 1)]; }); }},
      {"labels-not-shifted", "the labels are not shifted: {}", [](const Case&) { return List{0, 1}; },
       [](Case& c, double mask) {
         teach(c, [&](const auto& old, auto i, bool first, bool) {
           return (mask == 0 ? old[at(i)] >= 0 : first || old[at(i - 1)] >= 0) ? c.question.batch.tokens[at(i)] : -1;
         });
       },
       [](double mask) {
         return std::string(mask == 0 ? "each token is taught itself"
                                      : "each token is taught itself, and the mask is not shifted either");
       }},
      {"labels-shifted-in-part", "each cp rank shifts the labels of its own tokens ({}): those at the ends of parts are lost",
       in_either_order,
       [](Case& c, double zigzag) {
         teach(c, [&](const auto& old, auto i, bool, bool) {
           const std::int64_t t = i % c.question.batch.columns, next = next_of_rank(c, t, zigzag != 0);
           return next < 0 ? -1 : old[at(i - t + next - 1)];
         });
       },
       order_name},
  };
}

/// Samples, ranks and micro-batches that are left out or count twice.
std::vector<Way> part_ways() {
  return {
      {"loss-scale-left", "the gradient still has the loss scale {}",
       [](const Case& c) { return when(c.facts.loss_scale != 1, {c.facts.loss_scale}); }, multiply},
      {"gradient-lost", "the gradient is zero: it was dropped, or never computed or reduced", once, multiply},
      by_rank(dp, "one-rank", "only the samples of dp rank {} are in the gradient: the mean over dp ranks is missing",
              [](Case& c, double r) { take_rows(c, [&](auto row) { return rank_of_row(c, row) == r; }, true); }),
      by_rank(dp, "one-rank-divided", "only the samples of dp rank {} are in the gradient, divided by the targets of all",
              [](Case& c, double r) { take_rows(c, [&](auto row) { return rank_of_row(c, row) == r; }); }),
      by_rank(dp, "one-rank-scaled",
              "only the samples of dp rank {} are in the gradient, times the number of ranks: no mean is taken over them",
              [](Case& c, double r) {
                share(c, [&](auto row, auto, double one) { return rank_of_row(c, row) == r ? one * c.facts.dp : 0; });
              }),
      {"rank-lost", "the samples of dp rank {} are missing in the gradient", each(&Facts::dp),
       [](Case& c, double r) { take_rows(c, [&](auto row) { return rank_of_row(c, row) != r; }); }},
      {"one-micro-batch", "only micro-batch {} is in the gradient: the others are not accumulated", each(&Facts::micro_batches),
       [](Case& c, double m) { take_rows(c, [&](auto row) { return micro_of_row(c, row) == m; }); }},
      {"one-micro-batch-mean", "the gradient is micro-batch {}'s mean: the others are not accumulated",
       each(&Facts::micro_batches),
       [](Case& c, double m) { take_rows(c, [&](auto row) { return micro_of_row(c, row) == m; }, true); }},
      {"one-micro-batch-mean-divided",
       "the gradient is micro-batch {}'s mean, divided by their number: the others are not accumulated",
       each(&Facts::micro_batches),
       [](Case& c, double m) {
         take_rows(c, [&](auto row) { return micro_of_row(c, row) == m; }, true);
         multiply(c, 1 / c.facts.micro_batches);
       }},
      {"micro-batch-lost", "micro-batch {} is missing in the gradient", each(&Facts::micro_batches),
       [](Case& c, double m) { take_rows(c, [&](auto row) { return micro_of_row(c, row) != m; }); }},
      by_rank(dp, "last-not-reduced",
              "the last micro-batch is dp rank {}'s own, times the number of ranks: the others were reduced before it",
              [](Case& c, double r) {
                share(c, [&](auto row, auto, double one) {
                  const bool last = c.facts.micro_batches > 1 && micro_of_row(c, row) == c.facts.micro_batches - 1;
                  return !last ? one : rank_of_row(c, row) == r ? one * c.facts.dp : 0;
                });
              }),
      by_rank(dp, "last-not-added", "the last micro-batch is dp rank {}'s own: the others were added before it",
              [](Case& c, double r) {
                take_rows(c, [&](auto row) {
                  const bool last = c.facts.micro_batches > 1 && micro_of_row(c, row) == c.facts.micro_batches - 1;
                  return !last || rank_of_row(c, row) == r;
                });
              }),
      {"gradient-of-step-before", "the gradient is that of the step before", has_previous,
       [](Case& c, double) { c.own_share = 0, c.previous_share = 1; }},
      {"gradients-not-zeroed", "the gradient of the step before is still in it", has_previous,
       [](Case& c, double) { c.previous_share = 1; }},
      {"micro-batch-twice", "micro-batch {} is in the gradient twice", each(&Facts::micro_batches),
       [](Case& c, double m) {
         share(c, [&](auto row, auto, double one) { return micro_of_row(c, row) == m ? 2 * one : one; });
       }},
  };
}

/// The gradient is clipped where it is not whole, or not at all.
std::vector<Way> clip_ways() {
  const auto micro_batches = [](const Case& c) { return when_clipped(c, &Facts::micro_batches); };
  return {
      {"clipped-by-rank", "each dp rank's gradient is clipped before they are added",
       [](const Case& c) { return when_clipped(c, &Facts::dp, {1, c.facts.dp}); }, clip_early(Early::each_rank)},
      {"clipped-by-micro-batch", "each micro-batch's gradient is clipped before they are added",
       [](const Case& c) { return when_clipped(c, &Facts::micro_batches, {1, c.facts.micro_batches}); },
       clip_early(Early::each_micro_batch)},
      {"clipped-so-far", "the gradient is clipped behind each micro-batch, not behind the last one alone", micro_batches,
       clip_early(Early::sum_so_far)},
      {"clipped-before-last", "the gradient is clipped before the last micro-batch is in it", micro_batches,
       clip_early(Early::before_last)},
      {"gradient-not-clipped", "the gradient is not clipped",
       [](const Case& c) { return when(c.facts.clip > 0 && c.facts.clipped); }, [](Case& c, double) { c.facts.clipped = false; }},
  };
}

/// The gradient is as many times too large or too small as there are ranks or micro-batches.
std::vector<Way> factor_ways() {
  struct Row {
    std::string_view word, added, number;
    double Facts::* size;
  };
  constexpr std::array<Row, 4> rows{{{"dp", "dp ranks' means", "dp ranks", &Facts::dp},
                                     {"micro-batches", "micro-batches' means", "micro-batches", &Facts::micro_batches},
                                     {"tp", "copies of tensor ranks", "tensor ranks", &Facts::tp},
                                     {"cp", "cp ranks' means", "cp ranks", &Facts::cp}}};
  std::vector<Way> ways;
  for (const Row& row : rows) {
    ways.push_back({fmt::format("times-{}", row.word),
                    fmt::format("the gradient is {{}} times too large: {} are added", row.added), size_of(row.size), multiply});
    ways.push_back({fmt::format("over-{}", row.word),
                    fmt::format("the gradient is divided by the {{}} {} once too often", row.number), size_of(row.size),
                    [](Case& c, double n) { multiply(c, 1 / n); }});
  }
  for (const double zigzag : {0, 1}) {
    ways.push_back(by_rank(cp, "context-part",
                           "parameters' gradients have the positions of cp rank {} alone: " + order_name(zigzag),
                           [zigzag](Case& c, double r) {
                             for (std::int64_t t = 0; t < c.question.batch.columns; ++t)
                               c.question.ways.own_positions.push_back(static_cast<double>(context_rank(c, t, zigzag != 0)) == r);
                           }));
  }
  ways.push_back({"micro-batch-means-added", "the {} micro-batches' means are added, and not divided by their number",
                  size_of(&Facts::micro_batches), [](Case& c, double n) {
                    mean_of_means(c, [&](auto row, auto) { return unit_of_row(c, row); });
                    multiply(c, n);
                  }});
  ways.push_back({"gradient-times", "the gradient is {} times the right one",
                  [](const Case& c) { return when(c.gradient_ratio != 1, {c.gradient_ratio}); }, multiply});
  return ways;
}

}  // namespace

void share_alike(Question& question) {
  const auto taught = std::ranges::count_if(question.batch.targets, [](std::int64_t one) { return one >= 0; });
  question.shares.clear();
  for (const std::int64_t target : question.batch.targets)
    question.shares.push_back(target >= 0 ? 1 / static_cast<double>(taught) : 0);
  question.loss_shares = question.shares;
}

const std::vector<Way>& all_ways() {
  static const std::vector<Way> ways = [] {
    std::vector<Way> all = token_ways();
    for (const auto& more : {label_ways(), part_ways(), clip_ways(), factor_ways(), model_ways(), update_ways()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return ways;
}

}  // namespace lockstep::lab::against
