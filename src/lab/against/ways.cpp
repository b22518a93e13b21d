#include "lab/against/ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "lab/against/tape.h"

namespace lockstep::lab::against {
namespace {

using List = std::vector<double>;

List once(const Case& /*unused*/) { return {0}; }
List when(bool holds, List list = {0}) { return holds ? std::move(list) : List{}; }
/// The numbers of ranks or micro-batches, where there are several; or how many there are.
auto each(double Facts::* size) {
  return [size](const Case& c) {
    List list(static_cast<std::size_t>(std::min(c.facts.*size, 64.0)));  // more are not told apart in a dump that is judged soon
    std::iota(list.begin(), list.end(), 0.0);
    return when(list.size() > 1, list);
  };
}
auto size_of(double Facts::* size) {
  return [size](const Case& c) { return when(c.facts.*size > 1, {c.facts.*size}); };
}
List others(List list, double value) {
  std::erase_if(list, [value](double one) { return std::abs(one - value) <= 1e-6 * value; });
  return list;
}
bool has_documents(const Case& c) {
  return std::ranges::count(c.question.batch.documents, 0) < std::ssize(c.question.batch.tokens);
}
// Rotary positions are relative: where they begin changes nothing.
bool learned(const Case& c) { return c.question.config.position == arch::PositionKind::learned; }
bool has_untaught(const Case& c) { return std::ranges::min(c.question.batch.targets) < 0; }

/// The number of the micro-batch that a row is in, those of rank 0 first.
double unit_of(const Case& c, std::int64_t row) {
  return std::floor(static_cast<double>(row) * c.facts.dp * c.facts.micro_batches / static_cast<double>(c.question.batch.rows));
}
double rank_of(const Case& c, std::int64_t row) { return std::floor(unit_of(c, row) / c.facts.micro_batches); }
double micro_of(const Case& c, std::int64_t row) { return std::fmod(unit_of(c, row), c.facts.micro_batches); }
/// The context rank of a position: parts in order, or two chunks each, one from the front and one from the end.
std::int64_t context_rank(const Case& c, std::int64_t t, bool zigzag) {
  const std::int64_t parts = static_cast<std::int64_t>(c.facts.cp) * (zigzag ? 2 : 1),
                     chunk = t * parts / c.question.batch.columns;
  return zigzag ? std::min(chunk, parts - 1 - chunk) : chunk;
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
  share(c, [&](auto row, auto t, double one) { return ++counts[static_cast<double>(group(row, t))], one; });
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

template <class Position>
void place(Case& c, const Position& position) {
  Batch& batch = c.question.batch;
  for (std::int64_t i = 0; i < std::ssize(batch.positions); ++i) batch.positions[at(i)] = position(i % batch.columns);
}
/// Length of a context rank's chunk.
std::int64_t chunk(const Case& c) { return c.question.batch.columns / (2 * static_cast<std::int64_t>(c.facts.cp)); }
List in_chunks(const Case& c) {
  return when(c.facts.cp > 1 && c.question.batch.columns % (2 * static_cast<std::int64_t>(c.facts.cp)) == 0);
}
List in_either_order(const Case& c) { return when(!in_chunks(c).empty(), {0, 1}); }
std::string order_name(double zigzag) { return zigzag == 0 ? "parts in order" : "a chunk from each end"; }

std::string activation_name(double value) {
  constexpr std::array<std::string_view, 5> names{"none", "GELU (erf)", "GELU (tanh)", "ReLU", "SiLU"};
  return std::string(names.at(static_cast<std::size_t>(value)));
}

List padded_sizes(const Case& c) {
  const auto size = static_cast<double>(c.question.config.vocabulary);
  if (c.facts.padded_vocabulary > size) return {c.facts.padded_vocabulary};
  List list;
  for (const double unit : {8.0, 64.0, 128.0, 128.0 * c.facts.tp, 256.0}) list.push_back(std::ceil(size / unit) * unit);
  std::ranges::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return others(list, size);
}

OnlyPart tensor_part(const Case& c, double number) {
  return {static_cast<std::int64_t>(number), static_cast<std::int64_t>(c.facts.tp)};
}

/// Tokens that count wrongly.
std::vector<Way> token_ways() {
  return {
      {"micro-batch-means", "the loss is the mean of the micro-batches' means, which have different numbers of targets",
       [](const Case& c) { return when(c.facts.micro_batches > 1); },
       [](Case& c, double) { mean_of_means(c, [&](auto row, auto) { return unit_of(c, row); }); }},
      {"rank-means", "the loss is the mean of the dp ranks' means, which have different numbers of targets", size_of(&Facts::dp),
       [](Case& c, double) { mean_of_means(c, [&](auto row, auto) { return rank_of(c, row); }); }},
      {"sample-means", "the loss is the mean of the samples' means, which have different numbers of targets", once,
       [](Case& c, double) { mean_of_means(c, [](auto row, auto) { return row; }); }},
      {"context-means", "the loss is the mean of the cp ranks' means ({}), which have different numbers of targets",
       in_either_order,
       [](Case& c, double zigzag) { mean_of_means(c, [&](auto, auto t) { return context_rank(c, t, zigzag != 0); }); },
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
  };
}

/// Samples, ranks and micro-batches that are left out or count twice.
std::vector<Way> part_ways() {
  return {
      {"loss-scale-left", "the gradient still has the loss scale {}",
       [](const Case& c) { return when(c.facts.loss_scale != 1, {c.facts.loss_scale}); }, multiply},
      {"gradient-lost", "the gradient is zero: it was dropped, or never computed or reduced", once, multiply},
      {"one-rank",
       "only the samples of dp rank {} are in the gradient: the mean over dp ranks is missing",
       each(&Facts::dp),
       [](Case& c, double r) { take_rows(c, [&](auto row) { return rank_of(c, row) == r; }, true); },
       {},
       dp},
      {"one-rank-divided",
       "only the samples of dp rank {} are in the gradient, divided by the targets of all",
       each(&Facts::dp),
       [](Case& c, double r) { take_rows(c, [&](auto row) { return rank_of(c, row) == r; }); },
       {},
       dp},
      {"one-rank-scaled",
       "only the samples of dp rank {} are in the gradient, times the number of ranks: no mean is taken over them",
       each(&Facts::dp),
       [](Case& c, double r) {
         share(c, [&](auto row, auto, double one) { return rank_of(c, row) == r ? one * c.facts.dp : 0; });
       },
       {},
       dp},
      {"rank-lost", "the samples of dp rank {} are missing in the gradient", each(&Facts::dp),
       [](Case& c, double r) { take_rows(c, [&](auto row) { return rank_of(c, row) != r; }); }},
      {"one-micro-batch", "only micro-batch {} is in the gradient: the others are not accumulated", each(&Facts::micro_batches),
       [](Case& c, double m) { take_rows(c, [&](auto row) { return micro_of(c, row) == m; }); }},
      {"one-micro-batch-mean", "the gradient is micro-batch {}'s mean: the others are not accumulated",
       each(&Facts::micro_batches),
       [](Case& c, double m) { take_rows(c, [&](auto row) { return micro_of(c, row) == m; }, true); }},
      {"micro-batch-lost", "micro-batch {} is missing in the gradient", each(&Facts::micro_batches),
       [](Case& c, double m) { take_rows(c, [&](auto row) { return micro_of(c, row) != m; }); }},
      {"micro-batch-twice", "micro-batch {} is in the gradient twice", each(&Facts::micro_batches),
       [](Case& c, double m) { share(c, [&](auto row, auto, double one) { return micro_of(c, row) == m ? 2 * one : one; }); }},
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
  ways.push_back({"gradient-times", "the gradient is {} times the right one",
                  [](const Case& c) { return when(c.gradient_ratio != 1, {c.gradient_ratio}); }, multiply});
  return ways;
}

std::vector<Way> attention_ways() {
  return {
      {"sees-next", "the causal mask is off by one: each position sees the next", once,
       [](Case& c, double) { c.question.ways.sees_ahead = 1; }},
      {"sees-not-itself", "the causal mask is off by one: no position sees itself", once,
       [](Case& c, double) { c.question.ways.sees_ahead = -1; }},
      {"no-mask", "there is no causal mask: each position sees all", once,
       [](Case& c, double) { c.question.ways.sees_ahead = c.question.batch.columns; }},
      {"documents-leak", "documents of one sample see each other", [](const Case& c) { return when(has_documents(c)); },
       [](Case& c, double) { std::ranges::fill(c.question.batch.documents, 0); }},
      {"own-context", "each cp rank attends to its own positions alone ({})", in_either_order,
       [](Case& c, double zigzag) {
         Batch& batch = c.question.batch;
         for (std::int64_t i = 0; i < std::ssize(batch.documents); ++i)
           batch.documents[at(i)] = batch.documents[at(i)] * batch.columns + context_rank(c, i % batch.columns, zigzag != 0);
       },
       order_name},
      {"scores-not-scaled", "the attention's scores are not divided by the root of the head's size", once,
       [](Case& c, double) { c.question.ways.score_factor = std::sqrt(static_cast<double>(c.question.config.head_size)); }},
      {"scores-by-width", "the attention's scores are divided by the root of the model's width", once,
       [](Case& c, double) {
         const arch::ModelConfig& config = c.question.config;
         c.question.ways.score_factor = std::sqrt(static_cast<double>(config.head_size) / static_cast<double>(config.width));
       }},
      {"kv-heads-in-turn", "query heads take key/value heads in turn, not in groups",
       [](const Case& c) { return when(c.question.config.kv_heads > 1 && c.question.config.kv_heads < c.question.config.heads); },
       [](Case& c, double) { c.question.ways.kv_heads_in_turn = true; }},
  };
}

std::vector<Way> position_ways() {
  return {
      {"positions-of-rank", "each cp rank counts positions from 0 ({})", in_either_order,
       [](Case& c, double zigzag) {
         place(c, [&c, zigzag, size = chunk(c)](std::int64_t t) {
           return zigzag == 0 ? t % (2 * size) : t % size + (2 * t < c.question.batch.columns ? 0 : size);
         });
       },
       order_name},
      {"halves-swapped", "the two chunks of each cp rank have each other's positions", in_chunks,
       [](Case& c, double) {
         place(c, [&c, size = chunk(c)](std::int64_t t) { return c.question.batch.columns - (t / size + 1) * size + t % size; });
       }},
      {"positions-in-order", "positions are those of parts in order, tokens are a chunk from each end", in_chunks,
       [](Case& c, double) {
         place(c, [&c, size = chunk(c)](std::int64_t t) {
           return context_rank(c, t, true) * 2 * size + (2 * t < c.question.batch.columns ? 0 : size) + t % size;
         });
       }},
      {"positions-from-1", "positions are counted from 1",
       [](const Case& c) {
         return when(learned(c) && std::ranges::max(c.question.batch.positions) + 1 < c.question.config.block_size);
       },
       [](Case& c, double) {
         for (std::int64_t& position : c.question.batch.positions) ++position;
       }},
      {"positions-not-restarted", "positions are not counted from each document's start",
       [](const Case& c) { return when(learned(c) && has_documents(c)); },
       [](Case& c, double) { place(c, [](std::int64_t t) { return t; }); }},
      {"rotary-base", "the rotary base is {}",
       [](const Case& c) {
         const bool rotary = c.question.config.position == arch::PositionKind::rope;
         return when(rotary, others({1e4, 5e5, 1e6}, c.question.config.rope.theta));
       },
       [](Case& c, double theta) { c.question.config.rope.theta = theta; }},
      {"rotary-scaling", "the scaling of rotary angles is left out",
       [](const Case& c) { return when(c.question.config.rope.scaling != arch::RopeScaling::none); },
       [](Case& c, double) { c.question.config.rope.scaling = arch::RopeScaling::none; }},
      {"rotary-order", "rotary pairs are neighbouring features, but the weights are for halves of a head",
       [](const Case& c) { return when(c.question.config.position == arch::PositionKind::rope); },
       [](Case& c, double) { c.question.ways.neighbours_rotated = true; }},
  };
}

/// The rest of the model, and sums over tensor ranks.
std::vector<Way> model_ways() {
  const auto tied = [](const Case& c) { return when(c.question.config.tied); };
  return {
      {"norm-epsilon", "the norm's epsilon is {}",
       [](const Case& c) { return others({1e-5, 1e-6, 1e-8, 1e-12}, static_cast<double>(c.question.config.norm_eps)); },
       [](Case& c, double eps) { c.question.config.norm_eps = static_cast<float>(eps); }},
      {"activation", "the activation is {}",
       [](const Case& c) { return others({1, 2, 3, 4}, static_cast<double>(c.question.config.activation)); },
       [](Case& c, double kind) { c.question.config.activation = static_cast<arch::ActivationKind>(kind); }, activation_name},
      {"padded-softmax", "the softmax goes over a vocabulary padded to {} tokens", padded_sizes,
       [](Case& c, double size) { c.question.ways.padded_vocabulary = static_cast<std::int64_t>(size); }},
      {"tied-head-only", "the tied table's gradient has the head's part alone", tied,
       [](Case& c, double) { c.question.ways.table_share = 0; }},
      {"tied-table-only", "the tied table's gradient has the embedding's part alone", tied,
       [](Case& c, double) { c.question.ways.head_share = 0; }},
      {"tied-twice", "the tied table's gradient is added twice: by both stages that hold it", tied,
       [](Case& c, double) { c.question.ways.head_share = c.question.ways.table_share = 2; }},
      {"stale-weights", "the pass used the weights of the step before",
       [](const Case& c) { return when(c.previous_weights != nullptr); },
       [](Case& c, double) { c.question.weights = c.previous_weights; }},
      {"bias-times-tp", "biases behind sums over tensor ranks are added {} times, once by each rank", size_of(&Facts::tp),
       [](Case& c, double n) { c.question.ways.out_bias_times = n; }},
      {"tp-sum-missing",
       "the sum over tensor ranks is missing: this is the part of tp rank {} alone",
       each(&Facts::tp),
       [](Case& c, double r) { c.question.ways.out_sum = tensor_part(c, r); },
       {},
       tp,
       Scope::forward},
      {"tp-sum-twice", "sums over tensor ranks are made twice: they are {} times too large", size_of(&Facts::tp),
       [](Case& c, double n) { c.question.ways.out_times = n; }},
      {"tp-sum-twice-and-back", "sums over tensor ranks are made twice, also in the backward pass: they are {} times too large",
       size_of(&Facts::tp), [](Case& c, double n) { c.question.ways.out_times = c.question.ways.out_slope_times = n; }},
      {"tp-gradient-sum-missing",
       "the backward pass lacks the sum over tensor ranks: this is the part of tp rank {} alone",
       each(&Facts::tp),
       [](Case& c, double r) { c.question.ways.in_sum = tensor_part(c, r); },
       {},
       tp},
      {"tp-gradient-sum-twice", "sums over tensor ranks are made twice in the backward pass: they are {} times too large",
       size_of(&Facts::tp), [](Case& c, double n) { c.question.ways.in_slope_times = n; }},
      {"norm-gradients-of-part",
       "gradients of norms and output biases have the positions of tp rank {} alone",
       each(&Facts::tp),
       [](Case& c, double r) { c.question.ways.norm_positions = tensor_part(c, r); },
       {},
       tp},
  };
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
    for (const auto& more : {part_ways(), factor_ways(), attention_ways(), position_ways(), model_ways(), update_ways()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return ways;
}

}  // namespace lockstep::lab::against
