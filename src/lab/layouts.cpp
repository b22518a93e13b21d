#include "lab/layouts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <utility>

#include "base/number_text.h"
#include "layout/pipeline/schedules.h"
#include "layout/plan_fields.h"

namespace lockstep::lab {
namespace {

using Field = layout::PlanField;

/// The words of a layout, before they are put together.
struct Wish {
  layout::PlanWish plan;
  std::optional<DType> moments;
  bool documents = false;
  int servers = 0;
};

/// What may be offloaded, as the values of one word.
struct Place {
  std::string_view name;
  Field field;
  layout::OffloadTo layout::MemoryWish::* to;
};
constexpr std::array places{Place{"optimizer", Field::offload_optimizer, &layout::MemoryWish::offload_optimizer},
                            Place{"params", Field::offload_params, &layout::MemoryWish::offload_params},
                            Place{"activations", Field::offload_activations, &layout::MemoryWish::offload_activations}};

bool set_offload(layout::MemoryWish& memory, std::string_view value) {
  for (std::size_t at = 0; at <= value.size();) {
    const std::size_t end = std::min(value.find('+', at), value.size());
    const auto* const place = std::ranges::find(places, value.substr(at, end - at), &Place::name);
    if (place == places.end()) return false;
    memory.*place->to = layout::OffloadTo::nvme;
    at = end + 1;
  }
  return true;
}

std::string offloaded(const layout::MemoryWish& memory) {
  std::vector<std::string_view> names;
  for (const Place& place : places) {
    if (memory.*place.to != layout::OffloadTo::none) names.push_back(place.name);
  }
  return fmt::format("{}", fmt::join(names, "+"));
}

std::int64_t most_of(const layout::FieldRow& row) {
  return row.most > 0 ? row.most : static_cast<std::int64_t>(row.value.rule.high);
}

/// The value of a word in the field's type; null: it is no such value.
Json field_value(const layout::FieldRow& row, std::string_view text) {
  if (row.flag) return text.empty() ? Json(true) : Json();
  if (row.value.type == ValueType::boolean) return text == "true" || text == "false" ? Json(text == "true") : Json();
  if (row.value.type == ValueType::integer) {
    const auto number = number_from<std::int64_t>(text);
    const bool fits = number && obeys(*number, row.value.rule) && *number <= most_of(row);
    return fits ? Json(*number) : Json();
  }
  std::string typed(text);
  if (row.field == Field::split) std::ranges::replace(typed, '+', ',');  // commas part words
  const bool readable = obeys(typed, row.value.rule) && (row.value.rule.readable == nullptr || row.value.rule.readable(typed));
  return readable ? Json(std::move(typed)) : Json();
}

bool set_field(const layout::FieldRow& row, layout::PlanWish& wish, std::string_view text) {
  if (row.field == Field::pp) {  // whether there is such a schedule is a matter of check()
    const std::size_t colon = text.find(':');
    if (colon != std::string_view::npos) wish.parallel.schedule = text.substr(colon + 1);
    text = text.substr(0, colon);
  }
  const Json value = field_value(row, text);
  if (!value.is_null()) row.value.set(wish, value);
  return !value.is_null();
}

std::string field_text(const layout::FieldRow& row, const layout::PlanWish& wish) {
  const Json value = row.value.get(wish);
  std::string text = value.is_string() ? value.string() : value.dump();
  if (row.field == Field::split) std::ranges::replace(text, ',', '+');
  if (row.field == Field::pp && wish.parallel.schedule != layout::PlanWish{}.parallel.schedule)
    text += ":" + wish.parallel.schedule;
  return row.flag ? std::string(row.word) : fmt::format("{}={}", row.word, text);
}

LayoutWord word_of_field(const layout::FieldRow& row) {
  LayoutWord word{.name = std::string(row.word), .values = std::string(row.values), .about = std::string(row.brief)};
  const bool number = row.value.type == ValueType::integer;
  if (word.values.empty() && number) word.values = "N";
  if (word.values.empty() && !row.flag)
    word.values = row.value.type == ValueType::boolean ? "true|false" : fmt::format("{}", fmt::join(row.value.rule.words, "|"));
  if (number && row.field != Field::zero) word.limits = fmt::format("from {} to {}", row.value.rule.low, most_of(row));
  return word;
}

constexpr int most_servers = 64;

struct KnownWord {
  LayoutWord word;
  std::function<bool(Wish& wish, std::string_view value)> set;  ///< false: not a value of it
};

std::vector<KnownWord> known_words() {
  std::vector<KnownWord> all;
  for (const layout::FieldRow* row : layout::listed_fields()) {
    if (row->field == Field::offload_optimizer) {
      all.push_back({{"offload", "optimizer+params+activations", "what goes to a file, some or all of these"},
                     [](Wish& wish, std::string_view value) { return set_offload(wish.plan.memory, value); }});
    }
    if (row->word.empty()) continue;
    all.push_back({word_of_field(*row), [row](Wish& wish, std::string_view value) { return set_field(*row, wish.plan, value); }});
  }
  all.push_back({{"documents", "", "samples are several documents that do not see each other, in what is compared with too"},
                 [](Wish& wish, std::string_view value) { return wish.documents = value.empty(); }});
  all.push_back(
      {{"moments", "fp32|bf16", "the type of the optimizer's state, of what is compared with too (that of the weights)"},
       [](Wish& wish, std::string_view value) {
         wish.moments = value == "bf16" ? DType::bf16 : DType::f32;
         return value == "bf16" || value == "fp32";
       }});
  all.push_back({{"ps", "N", "ranks besides, which hold the parameters and serve them to the others (0)",
                  fmt::format("from 1 to {}", most_servers)},
                 [](Wish& wish, std::string_view value) {
                   wish.servers = number_from<int>(value).value_or(0);
                   return wish.servers >= 1 && wish.servers <= most_servers;
                 }});
  return all;
}

const std::vector<KnownWord>& words() {
  static const std::vector<KnownWord> all = known_words();
  return all;
}

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
  std::string unserved() const override { return "no ps"; }

 private:
  static std::string_view offloaded_part(Field field) {
    const auto* const place = std::ranges::find(places, field, &Place::field);
    return place == places.end() ? std::string_view{} : place->name;
  }
};

Problem unknown_word(std::string_view name, std::string_view text) {
  std::vector<std::string> names;
  for (const KnownWord& known : words()) names.emplace_back(known.word.name);
  const std::string near = nearest_name(name, names);
  return {fmt::format("{} in the layout {}: no layout has this word", name, text),
          near.empty() ? fmt::format("its words are {}", fmt::join(names, ", ")) : fmt::format("did you mean {}?", near)};
}

/// Puts one word into `wish`.
void take_word(std::string_view word, std::string_view text, Wish& wish, std::vector<Problem>& problems) {
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals),
                         value = equals == std::string_view::npos ? std::string_view{} : word.substr(equals + 1);
  const auto known = std::ranges::find_if(words(), [&](const KnownWord& each) { return each.word.name == name; });
  if (known == words().end()) {
    problems.push_back(
        word.empty() ? Problem{fmt::format("the layout \"{}\" has an empty word", text), "words with commas between: dp=2,zero=3"}
                     : unknown_word(name, text));
  } else if (!known->set(wish, value)) {
    const std::string limits = known->word.limits.empty() ? "" : fmt::format(", N {}", known->word.limits);
    problems.push_back({fmt::format("{} in the layout {}: must be {}{}", word, text, spelt(known->word), limits),
                        fmt::format("{}: {}", name, known->word.about)});
  }
}

/// Calls back with each word of a text, except words that are there twice.
void for_each_word(std::string_view text, std::vector<Problem>& problems, const std::function<void(const std::string&)>& take) {
  std::vector<std::string> names;
  for (const std::string& word : parts_of_list(text)) {
    const std::string name = word.substr(0, word.find('='));
    if (!name.empty() && std::ranges::count(names, name) > 0) {
      problems.push_back({fmt::format("{} in the layout {}: {} is there before", word, text, name), "say each word once"});
    } else {
      take(word);
    }
    names.push_back(name);
  }
}

Layout put_together(const Wish& wish, const LayoutDefaults& defaults) {
  const layout::ParallelWish& parallel = wish.plan.parallel;
  Layout layout{.plan = layout::plan_of(wish.plan, 1),
                .gradients = {.bucket_bytes = parallel.bucket_bytes, .overlap = parallel.overlap},
                .moments = wish.moments,
                .documents = wish.documents,
                .servers = wish.servers};
  layout::ParallelPlan& plan = layout.plan;
  layout::place_offloaded(plan, wish.plan.memory, true);
  const layout::NamedSchedule* schedule = plan.pp > 1 ? layout::find_schedule(plan.schedule) : nullptr;
  const int needed = schedule != nullptr ? schedule->least_microbatches * plan.pp : 1;
  if (wish.plan.gas == 0) plan.microbatches = std::max((defaults.microbatches + plan.dp - 1) / plan.dp, needed);
  const bool hosts = plan.optimizer.cut == layout::CutOver::host || plan.context == layout::ContextMethod::ulysses_ring;
  plan.ranks_per_host = static_cast<int>(parallel.ranks_per_host.value_or(hosts ? 2 * plan.tp : plan.ranks()));
  return layout;
}

}  // namespace

std::string spelt(const LayoutWord& word) {
  return word.values.empty() ? word.name : fmt::format("{}={}", word.name, word.values);
}

std::vector<LayoutWord> layout_words() {
  std::vector<LayoutWord> all;
  for (const KnownWord& known : words()) all.push_back(known.word);
  return all;
}

std::optional<Layout> layout_from(std::string_view text, std::vector<Problem>& problems, const LayoutDefaults& defaults) {
  const std::size_t before = problems.size();
  Wish wish;
  wish.plan.parallel.dp = 1;
  wish.plan.parallel.bucket_bytes = defaults.bucket_bytes;
  wish.plan.gas = 0;  // as many as the rest needs
  for_each_word(text, problems, [&](const std::string& word) { take_word(word, text, wish, problems); });
  if (problems.size() > before) return std::nullopt;
  return put_together(wish, defaults);
}

std::vector<std::string> settings_from(std::string_view text, std::vector<Problem>& problems) {
  std::vector<std::string> settings;
  Wish wish;
  const auto add = [&](const layout::FieldRow& row) {
    const Json value = row.value.get(wish.plan);
    settings.push_back(fmt::format("{}={}", row.setting, value.is_string() ? value.string() : value.dump()));
  };
  for_each_word(text, problems, [&](const std::string& word) {
    const std::string name = word.substr(0, word.find('='));
    if (name.find('.') != std::string::npos) return settings.push_back(word);
    const std::size_t before = problems.size();
    take_word(word, text, wish, problems);
    if (problems.size() > before) return;
    for (const layout::FieldRow* row : layout::listed_fields()) {
      if (row->word == name) add(*row);
    }
    if (name == "pp" && word.find(':') != std::string::npos) add(layout::row_of(Field::schedule));
    if (name == "offload") std::ranges::for_each(places, [&](const Place& place) { add(layout::row_of(place.field)); });
    if (name == "documents") settings.emplace_back("data.documents=true");
    if (name == "moments") settings.push_back("optimizer." + word);
    if (name == "ps") settings.insert(settings.end(), {"train.backend=ps", fmt::format("parallel.servers={}", wish.servers)});
  });
  return settings;
}

Layout data_parallel(int ranks) {
  Layout layout{.gradients = {}};
  layout.plan.dp = layout.plan.ranks_per_host = ranks;
  return layout;
}

std::vector<Problem> check(const Layout& layout, const layout::PlanLimits& limits, int ranks, const LayoutDefaults& defaults) {
  std::vector<Problem> problems = layout::check(layout.plan, limits, ranks, WordGrammar());
  if (layout.servers > 0)
    std::ranges::move(layout::check_served(layout::wish_of(layout.plan), WordGrammar(), limits.adapters),
                      std::back_inserter(problems));
  for (Problem& problem : problems) problem.message = fmt::format("layout {}: {}", name_of(layout, defaults), problem.message);
  return problems;
}

std::string name_of(const Layout& layout, const LayoutDefaults& defaults) {
  layout::PlanWish wish = layout::wish_of(layout.plan), usual;
  wish.parallel.bucket_bytes = layout.gradients.bucket_bytes;
  wish.parallel.overlap = layout.gradients.overlap;
  usual.parallel.bucket_bytes = defaults.bucket_bytes;
  std::vector<std::string> all;
  for (const layout::FieldRow* row : layout::listed_fields()) {
    if (row->field == Field::offload_optimizer) {
      if (const std::string names = offloaded(wish.memory); !names.empty()) all.push_back("offload=" + names);
    }
    const bool always = row->field == Field::dp || row->field == Field::gas;
    const bool differs = always || row->value.get(wish).dump() != row->value.get(usual).dump();
    if (differs && !row->word.empty()) all.push_back(field_text(*row, wish));
  }
  if (layout.documents) all.emplace_back("documents");
  if (layout.servers > 0) all.push_back(fmt::format("ps={}", layout.servers));
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
