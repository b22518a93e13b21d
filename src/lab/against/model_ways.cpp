// Wrong ways to compute a model's pass, of one rank or of several.

#include <fmt/format.h>

#include <array>
#include <map>

#include "lab/against/way_parts.h"

namespace lockstep::lab::against {
namespace {

bool has_documents(const Case& c) {
  return std::ranges::count(c.question.batch.documents, 0) < std::ssize(c.question.batch.tokens);
}
// Rotary positions are relative: where they begin changes nothing.
bool learned(const Case& c) { return c.question.config.position == arch::PositionKind::learned; }
bool windowed(const Case& c) { return arch::has_window(c.question.config, c.question.batch.columns); }
template <class Position>
void place(Case& c, const Position& position) {
  Batch& batch = c.question.batch;
  for (std::int64_t i = 0; i < std::ssize(batch.positions); ++i) batch.positions[at(i)] = position(i % batch.columns);
}
/// By position: its place in its cp rank's part, or in all parts one behind the other.
std::vector<std::int64_t> slots_of(const Case& c, bool zigzag, bool in_part) {
  std::vector<std::int64_t> slots;
  std::map<std::int64_t, std::int64_t> counts;
  for (std::int64_t t = 0; t < c.question.batch.columns; ++t) {
    const std::int64_t rank = context_rank(c, t, zigzag);
    slots.push_back(counts[rank]++ + (in_part ? 0 : 2 * chunk(c) * rank));
  }
  return slots;
}

List dividing_heads(const Case& c, List parts) {
  std::erase_if(parts, [&](double n) { return c.question.config.kv_heads % static_cast<std::int64_t>(n) != 0; });
  return parts;
}

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
       [](Case& c, double) { c.question.ways.score_factor = 1 / score_scale(c.question.config); }},
      {"scores-by-width", "the attention's scores are divided by the root of the model's width", once,
       [](Case& c, double) {
         const arch::ModelConfig& config = c.question.config;
         c.question.ways.score_factor = 1 / std::sqrt(static_cast<double>(config.width)) / score_scale(config);
       }},
      {"scores-not-capped", "the attention's scores are not capped",
       [](const Case& c) { return when(c.question.config.attention_softcap > 0); },
       [](Case& c, double) { c.question.config.attention_softcap = 0; }},
      {"window-left-out", "layers with a window see all before", [](const Case& c) { return when(windowed(c)); },
       [](Case& c, double) { c.question.config.window = 0; }},
      {"window-everywhere", "layers that should see all before see the window alone",
       [](const Case& c) { return when(windowed(c) && c.question.config.global_every > 0); },
       [](Case& c, double) { c.question.config.global_every = 0; }},
      {"window-size", "a query sees {} keys of the window, its own among them",
       [](const Case& c) {
         const auto window = static_cast<double>(c.question.config.window);
         return when(windowed(c), {window - 1, window + 1});
       },
       [](Case& c, double keys) { c.question.config.window = static_cast<std::int64_t>(keys); }},
      {"kv-heads-in-turn", "query heads take key/value heads in turn, not in groups",
       [](const Case& c) { return dividing_heads(c, {1, c.facts.tp}); },
       [](Case& c, double parts) { c.question.ways.kv_turns = static_cast<std::int64_t>(parts); }},
      {"qkv-order", "the fused rows, all queries, all keys, all values, are read as {} groups that have each",
       [](const Case& c) { return dividing_heads(c, {c.facts.tp, static_cast<double>(c.question.config.kv_heads)}); },
       [](Case& c, double n) { c.question.ways.qkv_groups = static_cast<std::int64_t>(n); }},
      {"mask-of-rank", "each cp rank's causal mask counts its own positions from 0 ({}), and keys in their order",
       in_either_order, [](Case& c, double zigzag) { c.question.ways.query_slots = slots_of(c, zigzag != 0, true); }, order_name},
      {"keys-in-rank-order", "the causal mask takes keys as they are gathered, rank by rank, for keys in their order", in_chunks,
       [](Case& c, double) { c.question.ways.key_slots = slots_of(c, true, false); }},
      {"keys-gradient-of-part", "keys and values lack the gradients that other cp ranks' queries give them ({})", in_either_order,
       [](Case& c, double zigzag) {
         for (std::int64_t t = 0; t < c.question.batch.columns; ++t)
           c.question.ways.key_parts.push_back(context_rank(c, t, zigzag != 0));
       },
       order_name},
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
      {"rotary-length", "queries and keys are not lengthened by the scaling's attention factor",
       [](const Case& c) { return when(c.question.config.rope.attention_factor != 1); },
       [](Case& c, double) { c.question.config.rope.attention_factor = 1; }},
      {"rotary-local-base", "layers with a window have the others' rotary base",
       [](const Case& c) { return when(arch::has_local_theta(c.question.config)); },
       [](Case& c, double) { c.question.config.rope.local_theta = 0; }},
      {"rotary-everywhere", "layers without positions have rotary ones",
       [](const Case& c) { return when(c.question.config.rope.skip_every > 0); },
       [](Case& c, double) { c.question.config.rope.skip_every = 0; }},
      {"rotary-sign", "rotary angles have the other sign: queries and keys are turned back, or halves are swapped",
       [](const Case& c) { return when(c.question.config.position == arch::PositionKind::rope); },
       [](Case& c, double) { c.question.ways.turned_back = true; }},
      {"rotary-order", "rotary pairs are neighbouring features, but the weights are for halves of a head",
       [](const Case& c) { return when(c.question.config.position == arch::PositionKind::rope); },
       [](Case& c, double) { c.question.ways.neighbours_rotated = true; }},
  };
}

/// Sums over tensor ranks that are missing, everywhere or in one kind of branch.
std::vector<Way> missing_sums() {
  struct Row {
    std::string_view word, where;
    Place out, in;
  };
  constexpr std::array<Row, 3> rows{{{"", "", Place::block, Place::block},
                                     {"-in-attention", " of attention", Place::attention_out, Place::qkv},
                                     {"-in-mlp", " of the MLP", Place::down, Place::up}}};
  std::vector<Way> ways;
  for (const Row& row : rows) {
    ways.push_back(by_rank(
        tp, fmt::format("tp-sum-missing{}", row.word),
        fmt::format("the sum{} over tensor ranks is missing: this is the part of tp rank {{}} alone", row.where),
        [row](Case& c, double r) { c.question.ways.out_sum = tensor_part(c, r), c.question.ways.summed = row.out; },
        row.out == Place::block ? Scope::forward : Scope::first));
    ways.push_back(by_rank(
        tp, fmt::format("tp-gradient-sum-missing{}", row.word),
        fmt::format("the backward pass{} lacks the sum over tensor ranks: this is the part of tp rank {{}} alone", row.where),
        [row](Case& c, double r) { c.question.ways.in_sum = tensor_part(c, r), c.question.ways.summed = row.in; },
        row.in == Place::block ? Scope::step : Scope::first));
  }
  return ways;
}

/// Sums over tensor ranks that are others than they should be.
std::vector<Way> wrong_sums() {
  return {
      {"bias-times-tp", "biases behind sums over tensor ranks are added {} times, once by each rank", size_of(&Facts::tp),
       [](Case& c, double n) { c.question.ways.out_bias_times = n; }},
      {"tp-sum-twice", "sums over tensor ranks are made twice: they are {} times too large", size_of(&Facts::tp),
       [](Case& c, double n) { c.question.ways.out_times = n; }},
      {"tp-sum-twice-and-back", "sums over tensor ranks are made twice, also in the backward pass: they are {} times too large",
       size_of(&Facts::tp), [](Case& c, double n) { c.question.ways.out_times = c.question.ways.out_slope_times = n; }},
      {"tp-mean-for-sum", "what tensor ranks give is averaged, not added: it is divided by {}", size_of(&Facts::tp),
       [](Case& c, double n) { c.question.ways.out_times = c.question.ways.out_slope_times = 1 / n; }},
      {"tp-sum-twice-back", "what comes back into sums over tensor ranks is summed again: it is {} times too large",
       size_of(&Facts::tp), [](Case& c, double n) { c.question.ways.out_slope_times = n; }},
      {"tp-gradient-sum-twice", "sums over tensor ranks are made twice in the backward pass: they are {} times too large",
       size_of(&Facts::tp), [](Case& c, double n) { c.question.ways.in_slope_times = n; }},
      by_rank(tp, "norm-gradients-of-part", "gradients of norms and output biases have the positions of tp rank {} alone",
              [](Case& c, double r) { c.question.ways.norm_positions = tensor_part(c, r); }),
  };
}

/// The rest of the model.
std::vector<Way> other_ways() {
  const auto tied = [](const Case& c) { return when(c.question.config.tied); };
  return {
      {"gate-swapped", "the activation is taken of the up projection, and the gate multiplies it",
       [](const Case& c) { return when(c.question.config.gated); }, [](Case& c, double) { c.question.ways.gate_swapped = true; }},
      {"variance-unbiased", "norms divide the sum of squares by one less than the width", once,
       [](Case& c, double) { c.question.ways.variance_less = 1; }},
      {"norm-epsilon", "the norm's epsilon is {}",
       [](const Case& c) { return others({1e-5, 1e-6, 1e-8, 1e-12}, static_cast<double>(c.question.config.norm_eps)); },
       [](Case& c, double eps) { c.question.config.norm_eps = static_cast<float>(eps); }},
      {"gain-with-one", "norms multiply by 1 + gain, not by the gain",
       [](const Case& c) { return when(c.question.config.norm == arch::NormKind::rmsnorm && !c.question.config.unit_offset); },
       [](Case& c, double) { c.question.config.unit_offset = true; }},
      {"gain-without-one", "norms multiply by the gain, not by 1 + gain",
       [](const Case& c) { return when(c.question.config.unit_offset); },
       [](Case& c, double) { c.question.config.unit_offset = false; }},
      {"embedding-not-scaled", "rows of the token table are not scaled",
       [](const Case& c) { return when(c.question.config.embedding_scale != 1); },
       [](Case& c, double) { c.question.config.embedding_scale = 1; }},
      {"branches-not-scaled", "what branches give is not scaled when it is added",
       [](const Case& c) { return when(c.question.config.residual_scale != 1); },
       [](Case& c, double) { c.question.config.residual_scale = 1; }},
      {"logits-not-scaled", "logits are not scaled", [](const Case& c) { return when(c.question.config.logit_scale != 1); },
       [](Case& c, double) { c.question.config.logit_scale = 1; }},
      {"logits-not-capped", "logits are not capped", [](const Case& c) { return when(c.question.config.logit_softcap > 0); },
       [](Case& c, double) { c.question.config.logit_softcap = 0; }},
      {"activation", "the activation is {}",
       [](const Case& c) { return others({1, 2, 3, 4}, static_cast<double>(c.question.config.activation)); },
       [](Case& c, double kind) { c.question.config.activation = static_cast<arch::ActivationKind>(kind); }, activation_name},
      {"padded-softmax", "the softmax goes over a vocabulary padded to {} tokens", padded_sizes,
       [](Case& c, double size) { c.question.ways.padded_vocabulary = static_cast<std::int64_t>(size); }},
      {"tied-head-only", "the tied table's gradient has the head's part alone", tied,
       [](Case& c, double) { c.question.ways.table_share = 0; }},
      {"tied-table-only", "the tied table's gradient has the embedding's part alone", tied,
       [](Case& c, double) { c.question.ways.head_share = 0; }},
      by_rank(pp, "tied-part-of-stage", "the tied table's gradient has the part of stage {} alone: the two are not added",
              [](Case& c, double stage) {
                if (!c.question.config.tied) return;
                if (stage == 0) c.question.ways.head_share = 0;
                if (stage == c.facts.pp - 1) c.question.ways.table_share = 0;
              }),
      {"tied-twice", "the tied table's gradient is added twice: by both stages that hold it", tied,
       [](Case& c, double) { c.question.ways.head_share = c.question.ways.table_share = 2; }},
      {"stale-weights", "the pass used the weights of the step before",
       [](const Case& c) { return when(c.previous_weights != nullptr); },
       [](Case& c, double) { c.question.weights = c.previous_weights; }},
  };
}

/// Parts that the model lacks, and what its loss has besides.
std::vector<Way> left_out_ways() {
  return {
      {"block-left-out", "block {} is left out",
       [](const Case& c) {
         List all;
         for (std::int64_t i = 0; i < c.question.config.layers; ++i) all.push_back(static_cast<double>(i));
         return all;
       },
       [](Case& c, double block) { c.question.ways.left_out_block = static_cast<std::int64_t>(block); }},
      {"residual-left-out", "what goes into {} is not added to what it gives",
       [](const Case& c) { return when(!c.question.config.post_norm, {1, 2, 3}); },
       [](Case& c, double which) {
         c.question.ways.no_attention_residual = which != 2;
         c.question.ways.no_mlp_residual = which != 1;
       },
       [](double which) {
         return std::string(which == 1 ? "attention" : which == 2 ? "the MLP" : "attention and the MLP");
       }},
      {"positions-left-out", "learned positions are not added", [](const Case& c) { return when(learned(c)); },
       [](Case& c, double) { c.question.ways.no_places = true; }},
      {"rotary-left-out", "queries and keys are not turned by their positions",
       [](const Case& c) { return when(c.question.config.position == arch::PositionKind::rope); },
       [](Case& c, double) { c.question.ways.no_places = true; }},
      {"final-norm-left-out", "the norm before the head is left out", once,
       [](Case& c, double) { c.question.ways.no_final_norm = true; }},
      {"qkv-biases-left-out", "the biases of queries, keys and values are left out",
       [](const Case& c) { return when(c.question.config.bias || c.question.config.qkv_bias); },
       [](Case& c, double) { c.question.ways.no_qkv_bias = true; }},
      {"out-biases-left-out", "the biases of products that go back into the model's width are left out",
       [](const Case& c) { return when(c.question.config.bias); }, [](Case& c, double) { c.question.ways.out_bias_times = 0; }},
      {"softmax-twice", "the loss takes the softmax of what is one already", once,
       [](Case& c, double) { c.question.ways.softmax_twice = true; }},
      {"label-smoothing", "labels are smoothed by {}", [](const Case&) { return List{0.05, 0.1}; },
       [](Case& c, double share) { c.question.ways.smoothing = share; }},
      {"z-loss", "{} times the squared log of the softmax's sum is added to the loss",
       [](const Case&) { return List{1e-5, 1e-4, 1e-3}; }, [](Case& c, double times) { c.question.ways.squared_log = times; }},
  };
}

}  // namespace

std::vector<Way> model_ways() {
  std::vector<Way> all = attention_ways();
  for (const auto& more : {position_ways(), other_ways(), wrong_sums(), missing_sums(), left_out_ways()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace lockstep::lab::against
