#include "lab/layouts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/number_text.h"
#include "layout/pipeline/schedules.h"
#include "layout/plan_fields.h"

namespace lockstep::lab {
namespace {

using Field = layout::PlanField;

constexpr int most_ranks = 64;  // of a degree
constexpr std::string_view kDegree = "from 1 to 64";

/// What the words say, before they are put together.
struct Wish {
  Layout layout;
  std::optional<int> microbatches, ranks_per_host, chunks;
  int zero = 0;
  layout::CutOver over = layout::CutOver::all;
};

std::optional<int> number(std::string_view text, int least, int most) {
  const auto value = number_from<int>(text);
  return value && *value >= least && *value <= most ? value : std::nullopt;
}

template <class T>
bool take(const std::optional<T>& value, T& to) {
  if (value) to = *value;
  return value.has_value();
}

bool truth(std::string_view text, bool& to) {
  to = text == "true";
  return to || text == "false";
}

// Whether there is such a schedule is a matter of check().
bool set_pipeline(layout::ParallelPlan& plan, std::string_view value) {
  const std::size_t colon = value.find(':');
  if (colon != std::string_view::npos) plan.schedule = value.substr(colon + 1);
  return take(number(value.substr(0, colon), 1, most_ranks), plan.pp);
}

bool set_split(layout::ParallelPlan& plan, std::string_view value) {
  for (std::size_t at = 0; at <= value.size();) {
    const std::size_t end = std::min(value.find('+', at), value.size());
    int blocks = 0;
    if (!take(number(value.substr(at, end - at), 1, 1024), blocks)) return false;
    plan.split.push_back(blocks);
    at = end + 1;
  }
  return true;
}

struct Place {
  std::string_view name;
  layout::Tier& (*tier)(layout::ParallelPlan& plan);
};
constexpr std::array places{Place{"optimizer", [](layout::ParallelPlan& plan) -> layout::Tier& { return plan.optimizer.tier; }},
                            Place{"params", [](layout::ParallelPlan& plan) -> layout::Tier& { return plan.parameters.tier; }},
                            Place{"activations", [](layout::ParallelPlan& plan) -> layout::Tier& { return plan.activations; }}};

bool set_offload(layout::ParallelPlan& plan, std::string_view value) {
  for (std::size_t at = 0; at <= value.size();) {
    const std::size_t end = std::min(value.find('+', at), value.size());
    const auto* const place = std::ranges::find(places, value.substr(at, end - at), &Place::name);
    if (place == places.end()) return false;
    place->tier(plan) = layout::Tier::disk;
    at = end + 1;
  }
  return true;
}

std::string offloaded(layout::ParallelPlan plan) {
  std::vector<std::string_view> names;
  for (const Place& place : places) {
    if (place.tier(plan) != layout::Tier::device) names.push_back(place.name);
  }
  return fmt::format("{}", fmt::join(names, "+"));
}

struct KnownWord {
  LayoutWord word;
  bool (*set)(Wish& wish, std::string_view value);  ///< false: not a value of it
};

constexpr std::array words{
    KnownWord{{"dp", "N", "data-parallel ranks (1)", "parallel.dp", kDegree},
              [](Wish& wish, std::string_view value) { return take(number(value, 1, most_ranks), wish.layout.plan.dp); }},
    KnownWord{{"tp", "N", "tensor-parallel ranks, which split layers (1)", "parallel.tp", kDegree},
              [](Wish& wish, std::string_view value) { return take(number(value, 1, most_ranks), wish.layout.plan.tp); }},
    KnownWord{{"sequence", "", "of tp: tokens are split where layers are not", "parallel.sequence"},
              [](Wish& wish, std::string_view value) { return wish.layout.plan.sequence = value.empty(); }},
    KnownWord{{"cp", "N", "context-parallel ranks, which split every sequence (1)", "parallel.cp", kDegree},
              [](Wish& wish, std::string_view value) { return take(number(value, 1, most_ranks), wish.layout.plan.cp); }},
    KnownWord{{"context", "allgather|ulysses|ring|ulysses+ring",
               "of cp: keys are gathered, positions exchanged for heads, keys passed round, or both by hosts (allgather)",
               "parallel.context"},
              [](Wish& wish, std::string_view value) { return take(layout::context_from(value), wish.layout.plan.context); }},
    KnownWord{{"pp", "N or N:SCHEDULE", "pipeline ranks, which divide the blocks, and who works on what when (1, 1f1b)",
               "parallel.pp", kDegree},
              [](Wish& wish, std::string_view value) { return set_pipeline(wish.layout.plan, value); }},
    KnownWord{{"virtual_stages", "N", "of pp: stages of each rank (2 where the schedule has several)", "parallel.virtual_stages",
               kDegree},
              [](Wish& wish, std::string_view value) { return (wish.chunks = number(value, 1, most_ranks)).has_value(); }},
    KnownWord{{"split", "N+N+...", "of pp: blocks of each stage (as even as they can be)", "parallel.split"},
              [](Wish& wish, std::string_view value) { return set_split(wish.layout.plan, value); }},
    KnownWord{
        {"gas", "N", "micro-batches of a step, on each data-parallel rank (in verify those that make 4 on all; as pp needs)",
         "optimizer.gas", "from 1 to 1024"},
        [](Wish& wish, std::string_view value) { return (wish.microbatches = number(value, 1, 1024)).has_value(); }},
    KnownWord{{"reduce", "step|microbatch", "when gradients are added over ranks (step)", "parallel.reduce"},
              [](Wish& wish, std::string_view value) {
                const bool each = value == "microbatch";
                wish.layout.plan.reduce = each ? layout::ReduceEvery::microbatch : layout::ReduceEvery::step;
                return each || value == "step";
              }},
    KnownWord{{"zero", "0..3", "what ranks cut: 1 the optimizer's state, 2 gradients too, 3 weights too (0)", "memory.zero"},
              [](Wish& wish, std::string_view value) { return take(number(value, 0, 3), wish.zero); }},
    KnownWord{{"zero_group", "all|node", "over whom: all ranks, or those of a host (all)", "memory.zero_group"},
              [](Wish& wish, std::string_view value) {
                wish.over = value == "node" ? layout::CutOver::host : layout::CutOver::all;
                return value == "node" || value == "all";
              }},
    KnownWord{
        {"ranks_per_host", "N", "that count as one host's (2 x tp where hosts matter)", "parallel.ranks_per_host", kDegree},
        [](Wish& wish, std::string_view value) { return (wish.ranks_per_host = number(value, 1, most_ranks)).has_value(); }},
    KnownWord{{"prefetch", "N", "of zero=3: leases gathered ahead (1)", "memory.prefetch", "from 0 to 64"},
              [](Wish& wish, std::string_view value) { return take(number(value, 0, 64), wish.layout.plan.prefetch); }},
    KnownWord{{"reshard", "true|false", "of zero=3: gathered weights go after forward (true)", "memory.reshard_after_forward"},
              [](Wish& wish, std::string_view value) { return truth(value, wish.layout.plan.reshard_after_forward); }},
    KnownWord{{"recompute", "none|selective|full|every:K", "what blocks make again in backward (none)", "memory.recompute"},
              [](Wish& wish, std::string_view value) { return take(layout::recompute_from(value), wish.layout.plan.recompute); }},
    KnownWord{{"tiles", "INxOUT", "of zero=3 and offload=params: tiles of linear layers' matrices, leased one by one (1x1)",
               "memory.tiles"},
              [](Wish& wish, std::string_view value) { return take(layout::tiles_from(value), wish.layout.plan.tiles); }},
    KnownWord{{"offload", "optimizer+params+activations", "what goes to a file, some or all of these", "memory.offload_*"},
              [](Wish& wish, std::string_view value) { return set_offload(wish.layout.plan, value); }},
    KnownWord{{"overlap", "true|false", "gradients are added while backward goes on (true)", "parallel.overlap"},
              [](Wish& wish, std::string_view value) { return truth(value, wish.layout.gradients.overlap); }},
    KnownWord{{"bucket", "BYTES", "of gradients that are added together (in verify 65536)", "parallel.bucket_bytes",
               "from 1 to 1073741824"},
              [](Wish& wish, std::string_view value) {
                int bytes = 0;
                if (!take(number(value, 1, 1 << 30), bytes)) return false;
                wish.layout.gradients.bucket_bytes = bytes;
                return true;
              }},
    KnownWord{
        {"canonical", "", "sums by fixed ranges, in what is compared with too: dp, gas, tp, sequence and cp promise bits as well",
         "numerics.canonical"},
        [](Wish& wish, std::string_view value) { return wish.layout.plan.canonical = value.empty(); }},
    KnownWord{{"documents", "", "samples are several documents that do not see each other, in what is compared with too",
               "data.documents"},
              [](Wish& wish, std::string_view value) { return wish.layout.documents = value.empty(); }},
    KnownWord{{"moments", "fp32|bf16", "the type of the optimizer's state, of what is compared with too (that of the weights)",
               "optimizer.moments"},
              [](Wish& wish, std::string_view value) {
                wish.layout.moments = value == "bf16" ? DType::bf16 : DType::f32;
                return value == "bf16" || value == "fp32";
              }},
};

/// How the words of layouts say fields: those without a value stand alone, and some fields are parts of another's value.
class WordGrammar : public layout::PlanGrammar {
 public:
  std::string name(Field field) const override {
    const std::string_view offloaded = offloaded_part(field);
    return offloaded.empty() ? std::string(layout::row_of(field).word) : fmt::format("offload={}", offloaded);
  }
  std::string has(Field field, std::string_view value) const override {
    if (layout::row_of(field).flag) return name(field);
    return field == Field::schedule ? fmt::format("the schedule of pp: {}", value) : fmt::format("{} = {}", name(field), value);
  }
  std::string set(Field field, std::string_view value) const override {
    if (field == Field::schedule) return fmt::format("pp=N:{}", value);
    if (field == Field::allow_tp_across_hosts) return "another ranks_per_host";
    if (const std::string_view offloaded = offloaded_part(field); !offloaded.empty())
      return fmt::format("{} out of offload", offloaded);
    if (layout::row_of(field).flag) return value == "false" ? fmt::format("no {}", name(field)) : name(field);
    return fmt::format("{}={}", name(field), value);
  }
  std::string unset(Field field) const override { return field == Field::dp ? "dp=N" : fmt::format("no {}", name(field)); }
  std::string set_layers(std::int64_t layers) const override { return fmt::format("a model of as many blocks: {}", layers); }
  std::string positions() const override { return "length of a sample"; }

 private:
  static std::string_view offloaded_part(Field field) {
    if (field == Field::offload_optimizer) return "optimizer";
    if (field == Field::offload_params) return "params";
    return field == Field::offload_activations ? "activations" : "";
  }
};

Problem unknown_word(std::string_view name, std::string_view text) {
  std::vector<std::string> names;
  for (const KnownWord& known : words) names.emplace_back(known.word.name);
  const std::string near = nearest_name(name, names);
  return {fmt::format("{} in the layout {}: no layout has this word", name, text),
          near.empty() ? fmt::format("its words are {}", fmt::join(names, ", ")) : fmt::format("did you mean {}?", near)};
}

/// Puts one word into `wish`.
void take_word(std::string_view word, std::string_view text, Wish& wish, std::vector<Problem>& problems) {
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals),
                         value = equals == std::string_view::npos ? std::string_view{} : word.substr(equals + 1);
  const auto* const known = std::ranges::find(words, name, [](const KnownWord& each) { return each.word.name; });
  if (known == words.end()) {
    problems.push_back(
        word.empty() ? Problem{fmt::format("the layout \"{}\" has an empty word", text), "words with commas between: dp=2,zero=3"}
                     : unknown_word(name, text));
  } else if (!known->set(wish, value)) {
    const std::string limits = known->word.limits.empty() ? "" : fmt::format(", N {}", known->word.limits);
    problems.push_back({fmt::format("{} in the layout {}: must be {}{}", word, text, spelt(known->word), limits),
                        fmt::format("{}: {}", name, known->word.about)});
  }
}

Layout put_together(const Wish& wish, const LayoutDefaults& defaults) {
  Layout layout = wish.layout;
  layout::ParallelPlan& plan = layout.plan;
  const layout::NamedSchedule* schedule = layout::find_schedule(plan.schedule);
  const bool pipeline = plan.pp > 1 && schedule != nullptr;
  plan.chunks = wish.chunks.value_or(pipeline ? usual_chunks(*schedule, plan.pp) : 1);
  const int needed = pipeline ? schedule->least_microbatches * plan.pp : 1;
  plan.microbatches = wish.microbatches.value_or(std::max((defaults.microbatches + plan.dp - 1) / plan.dp, needed));
  const bool hosts = wish.over == layout::CutOver::host && wish.zero > 0;
  const bool between = hosts || plan.context == layout::ContextMethod::ulysses_ring;
  plan.ranks_per_host = wish.ranks_per_host.value_or(between ? 2 * plan.tp : plan.ranks());
  layout::set_zero_level(plan, wish.zero, wish.over);
  return layout;
}

}  // namespace

std::string spelt(const LayoutWord& word) {
  return word.values.empty() ? std::string(word.name) : fmt::format("{}={}", word.name, word.values);
}

std::vector<LayoutWord> layout_words() {
  std::vector<LayoutWord> all;
  for (const KnownWord& known : words) all.push_back(known.word);
  return all;
}

std::optional<Layout> layout_from(std::string_view text, std::vector<Problem>& problems, const LayoutDefaults& defaults) {
  const std::size_t before = problems.size();
  Wish wish;
  wish.layout.gradients.bucket_bytes = defaults.bucket_bytes;
  std::vector<std::string_view> names;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view word = text.substr(at, end - at), name = word.substr(0, word.find('='));
    if (!name.empty() && std::ranges::count(names, name) > 0) {
      problems.push_back({fmt::format("{} in the layout {}: {} is there before", word, text, name), "say each word once"});
    } else {
      take_word(word, text, wish, problems);
    }
    names.push_back(name);
    at = end + 1;
  }
  if (problems.size() > before) return std::nullopt;
  return put_together(wish, defaults);
}

Layout data_parallel(int ranks) {
  Layout layout{.gradients = {}};
  layout.plan.dp = layout.plan.ranks_per_host = ranks;
  return layout;
}

std::vector<Problem> check(const Layout& layout, const layout::PlanLimits& limits, int ranks, const LayoutDefaults& defaults) {
  std::vector<Problem> problems = layout::check(layout.plan, limits, ranks, WordGrammar());
  for (Problem& problem : problems) problem.message = fmt::format("layout {}: {}", name_of(layout, defaults), problem.message);
  return problems;
}

std::string name_of(const Layout& layout, const LayoutDefaults& defaults) {
  const layout::ParallelPlan& plan = layout.plan;
  const layout::ParallelPlan usual;
  std::vector<std::string> all{fmt::format("dp={}", plan.dp)};
  const auto say = [&](bool differs, const std::string& word) {
    if (differs) all.push_back(word);
  };
  say(plan.tp > 1, fmt::format("tp={}", plan.tp));
  say(plan.sequence, "sequence");
  say(plan.cp > 1, fmt::format("cp={}", plan.cp));
  say(plan.context != usual.context, fmt::format("context={}", to_string(plan.context)));
  const bool named = plan.pp > 1 && plan.schedule != usual.schedule;
  say(plan.pp > 1, fmt::format("pp={}{}{}", plan.pp, named ? ":" : "", named ? plan.schedule : ""));
  const layout::NamedSchedule* schedule = layout::find_schedule(plan.schedule);
  say(plan.chunks != (schedule == nullptr || plan.pp == 1 ? 1 : usual_chunks(*schedule, plan.pp)),
      fmt::format("virtual_stages={}", plan.chunks));
  say(!plan.split.empty(), fmt::format("split={}", fmt::join(plan.split, "+")));
  say(true, fmt::format("gas={}", plan.microbatches));
  const int zero = layout::zero_level(plan);
  say(plan.reduce != usual.reduce, "reduce=microbatch");
  say(zero > 0, fmt::format("zero={}", zero));
  say(plan.optimizer.cut == layout::CutOver::host, "zero_group=node");
  say(plan.ranks_per_host != plan.ranks(), fmt::format("ranks_per_host={}", plan.ranks_per_host));
  say(plan.prefetch != usual.prefetch, fmt::format("prefetch={}", plan.prefetch));
  say(!plan.reshard_after_forward, "reshard=false");
  say(plan.recompute != usual.recompute, fmt::format("recompute={}", to_string(plan.recompute)));
  say(plan.tiles.cut(), fmt::format("tiles={}", to_string(plan.tiles)));
  say(!offloaded(plan).empty(), fmt::format("offload={}", offloaded(plan)));
  say(!layout.gradients.overlap, "overlap=false");
  say(layout.gradients.bucket_bytes != defaults.bucket_bytes, fmt::format("bucket={}", layout.gradients.bucket_bytes));
  say(plan.canonical, "canonical");
  say(layout.documents, "documents");
  if (layout.moments) all.emplace_back(*layout.moments == DType::bf16 ? "moments=bf16" : "moments=fp32");
  return fmt::format("{}", fmt::join(all, ","));
}

Layout plain(const Layout& layout) {
  const layout::ParallelPlan& plan = layout.plan;
  Layout same{.moments = layout.moments, .documents = layout.documents};
  same.plan.dp = plan.dp;
  same.plan.tp = plan.tp;
  same.plan.sequence = plan.sequence;
  same.plan.cp = plan.cp;
  same.plan.context = plan.context;
  same.plan.microbatches = plan.microbatches;
  same.plan.canonical = plan.canonical;
  // Hosts decide who attends with whom.
  const bool hosts = plan.context == layout::ContextMethod::ulysses_ring;
  same.plan.ranks_per_host = hosts ? plan.ranks_per_host : same.plan.ranks();
  // With one micro-batch or one rank there is one order of additions.
  if (plan.dp * plan.cp > 1 && plan.microbatches > 1) same.plan.reduce = plan.reduce;
  return same;
}

Layout one_rank(const Layout& layout) {
  Layout one{.moments = layout.moments, .documents = layout.documents};
  one.plan.microbatches = layout.microbatches();
  one.plan.canonical = layout.plan.canonical;
  return one;
}

}  // namespace lockstep::lab
