#include "app/plan/foreign/megatron.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "app/plan/foreign/megatron_rules.h"
#include "app/plan/foreign/megatron_table.h"
#include "app/plan/foreign/script_words.h"
#include "app/plan/search/winner.h"
#include "app/settings/keys.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/number_text.h"
#include "layout/pipeline/split.h"

namespace lockstep::app::megatron {
namespace {

using settings::find_key;

/// As Megatron-LM reads it: whole numbers have no point.
std::string value_of(const RunConfig& config, std::string_view key) {
  const Json value = find_key(key)->get(config);
  const bool whole = value.is_number() && value.number() == std::floor(value.number()) && std::abs(value.number()) < 1e15;
  return settings::shown(whole ? Json(static_cast<std::int64_t>(value.number())) : value);
}

/// "Et*2|t*2|t*2L" for 2, 2, 2.
std::string stages_text(const std::vector<std::int64_t>& split) {
  std::vector<std::string> stages;
  for (const std::int64_t blocks : split) stages.push_back(blocks > 0 ? fmt::format("t*{}", blocks) : "");
  return fmt::format("E{}L", fmt::join(stages, "|"));
}

constexpr std::size_t most_stages_text = 1 << 16;

/// How often what stands before `rest` is meant: "*3" of it, which is taken off, or once.
std::optional<std::size_t> repeats(std::string_view& rest) {
  if (!rest.starts_with('*')) return 1;
  const std::size_t end = std::min(rest.find_first_not_of("0123456789", 1), rest.size());
  const auto found = number_from<std::size_t>(rest.substr(1, end - 1));
  rest.remove_prefix(end);
  return found && *found <= most_stages_text ? found : std::nullopt;
}

/// "(tt|)*3" and "t*3" written out.
std::optional<std::string> written_out(std::string_view rest) {
  std::string plain;
  while (!rest.empty()) {
    std::string_view part = rest.substr(0, 1);
    if (rest.starts_with('(')) {
      part = rest.substr(1, rest.find(')') - 1);
      if (part.size() + 2 > rest.size()) return std::nullopt;
      rest.remove_prefix(2);
    }
    rest.remove_prefix(part.size());
    const auto often = repeats(rest);
    if (!often || plain.size() + *often * part.size() > most_stages_text) return std::nullopt;
    for (std::size_t i = 0; i < *often; ++i) plain += part;
  }
  return plain;
}

/// The same, read: stages with bars between, "(tt|)*3" and "t*3" for repeated ones. Nothing for another text.
std::optional<std::vector<std::int64_t>> split_from(std::string_view text) {
  const std::optional<std::string> plain = written_out(text);
  if (!plain || plain->find_first_not_of("EtL|,") != std::string::npos) return std::nullopt;
  std::vector<std::int64_t> split{0};
  for (const char c : *plain) {
    if (c == '|') split.push_back(0);
    if (c == 't') ++split.back();
  }
  return split;
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  ForeignJob read(const std::vector<std::string>& words) {
    job_.form = "arguments of Megatron-LM";
    job_.system = planner::megatron;
    job_.has_model = true;
    collect(words);
    if (!given_.contains("--micro-batch-size") && !given_.contains(layers)) {
      throw UserError(fmt::format("{}: no arguments of Megatron-LM", file_),
                      "its training script, or a file of its arguments; DeepSpeed's JSON in a file that ends in .json");
    }
    for (const Argument& argument : arguments()) take(argument);
    model();
    recompute();
    pipeline();
    state();
    system();
    count(global_batch, job_.batch);
    std::optional<std::int64_t> nodes_said, devices_said;
    count(nodes, nodes_said);
    count(devices, devices_said);
    job_.nodes = nodes_said.value_or(0);
    job_.devices = devices_said.value_or(0);
    leftovers();
    if (!problems_.empty()) throw UserError(std::move(problems_));
    return std::move(job_);
  }

 private:
  /// Each argument with its first value; the last of several counts, as argparse has it.
  void collect(const std::vector<std::string>& words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (!words[i].starts_with("--") || words[i].size() == 2) continue;
      const std::size_t equals = words[i].find('=');
      std::string name = words[i].substr(0, equals), value;
      std::ranges::replace(name, '_', '-');
      if (equals != std::string::npos) {
        value = words[i].substr(equals + 1);
      } else if (i + 1 < words.size() && !words[i + 1].starts_with("--")) {
        value = words[i + 1];
      }
      const auto [at, fresh] = given_.try_emplace(name, value);
      if (!fresh && at->second != value && is_known(name))
        job_.notes.push_back(fmt::format("{} is there as {} and as {}: the last one counts", name, at->second, value));
      at->second = value;
    }
  }

  const std::string* find(std::string_view name) {
    const auto found = given_.find(name);
    if (found == given_.end()) return nullptr;
    used_.emplace_back(name);
    return &found->second;
  }
  bool has(std::string_view name) { return find(name) != nullptr; }

  void wrong(std::string message, std::string remedy) {
    problems_.push_back({fmt::format("{}: {}", file_, message), std::move(remedy)});
  }
  /// The value was a variable of the shell.
  static std::string unset(const std::string& value) {
    return value.find('$') == value.npos ? "" : ", which the file does not set";
  }

  void set(std::string_view key, std::string_view text, std::string_view name, const std::string& value) {
    const settings::Key& entry = *find_key(key);
    if (const auto problem = assign(job_.config, entry, settings::value_from_text(entry, text)))
      wrong(fmt::format("{} {}{}: must be {}", name, value, unset(value), rule_text(entry)), std::string(name) + " N");
  }

  void take(const Argument& argument) {
    const std::string* value = find(argument.name);
    if (!argument.beside.empty() && !has(argument.beside)) value = nullptr;
    if (argument.use == Argument::Use::written) return;
    if (value == nullptr) {
      if (!argument.off.empty()) set(argument.key, argument.off, argument.name, "");
      return;
    }
    if (!argument.on.empty()) return set(argument.key, argument.on, argument.name, "");
    if (argument.words.empty()) return set(argument.key, *value, argument.name, *value);
    const auto word = std::ranges::find(argument.words, std::string_view(*value), &Word::theirs);
    if (word != argument.words.end()) return set(argument.key, word->ours, argument.name, *value);
    std::vector<std::string_view> known;
    for (const Word& each : argument.words) known.push_back(each.theirs);
    wrong(fmt::format("{} {}{}: not known here", argument.name, *value, unset(*value)),
          fmt::format("one of {}", fmt::join(known, ", ")));
  }

  /// A whole number from 1 on.
  void count(std::string_view name, std::optional<std::int64_t>& into) {
    const std::string* value = find(name);
    if (value == nullptr) return;
    const auto number = number_from<std::int64_t>(*value);
    constexpr std::int64_t most = 1 << 24;
    if (number && *number >= 1 && *number <= most) {
      into = number;
    } else {
      wrong(fmt::format("{} {}{}: must be a whole number from 1 to {}", name, *value, unset(*value), most),
            fmt::format("{} 8", name));
    }
  }

  void model() {
    RunConfig::Model& model = job_.config.model;
    for (const std::string_view name : {layers, std::string_view("--hidden-size"), std::string_view("--num-attention-heads"),
                                        std::string_view("--seq-length"), std::string_view("--micro-batch-size")}) {
      if (!given_.contains(name)) wrong(fmt::format("{} is missing", name), fmt::format("{} N", name));
    }
    // What Megatron-LM takes where a gated model does not say.
    if (!model.ffn_width && model.activation.gated) model.ffn_width = std::max<std::int64_t>(64, model.n_embd * 8 / 3 / 64 * 64);
    if (!model.vocab_size) job_.notes.emplace_back("--vocab-size is not there: a vocabulary of 50,304 was taken");
    std::optional<std::int64_t> rows;
    count(padding, rows);
    if (!rows || !model.vocab_size) return;
    const std::int64_t multiple = *rows * job_.config.parallel.tp, padded = round_up(*model.vocab_size, multiple);
    if (padded == *model.vocab_size) return;
    job_.notes.push_back(fmt::format("{} {}: a vocabulary of {} was taken, as Megatron-LM pads it", padding, *rows, padded));
    set("model.vocab_size", std::to_string(padded), padding, std::to_string(*rows));
  }

  void recompute() {
    using Kind = layout::Recompute::Kind;
    layout::Recompute& recompute = job_.config.memory.recompute;
    if (has(selective)) recompute.kind = Kind::selective;
    if (const std::string* kind = find(granularity)) {
      if (*kind != "full" && *kind != "selective")
        return wrong(fmt::format("{} {}: not known here", granularity, *kind), "selective or full");
      recompute.kind = *kind == "full" ? Kind::full : Kind::selective;
    }
    const std::string* way = find(method);
    std::optional<std::int64_t> number;
    count(together, number);
    if (recompute.kind != Kind::full) return;
    if (way != nullptr && *way == uniform) {
      recompute.every = static_cast<int>(number.value_or(1));
    } else {
      job_.notes.push_back(fmt::format("{} {}: all blocks were counted as run again", method, way == nullptr ? "" : *way));
    }
  }

  void pipeline() {
    RunConfig::Parallel& parallel = job_.config.parallel;
    if (parallel.tp == 1) parallel.sequence = false;
    if (parallel.cp == 1) parallel.context = {};
    std::optional<std::int64_t> chunks, layers_of_chunk;
    count(virtual_stages, chunks);
    count(virtual_layers, layers_of_chunk);
    const std::string* custom = find(stages);
    std::vector<Problem> unstarted;
    if (problems_.empty()) unstarted = why_not_started(job_.config, {given_, chunks, layers_of_chunk});
    for (Problem& problem : unstarted) wrong(problem.message, std::move(problem.remedy));
    if (!unstarted.empty()) return;
    if (parallel.pp == 1) return;
    const std::int64_t blocks = job_.config.model.n_layer;
    if (custom != nullptr) {
      parallel.split = split_from(*custom);
      if (!parallel.split || std::ssize(*parallel.split) % parallel.pp != 0)
        return wrong(fmt::format("{} {}: no layout of {} ranks", stages, *custom, parallel.pp),
                     "\"Et*4|t*4L\", stages with bars between");
      chunks = std::ssize(*parallel.split) / parallel.pp;
    } else if (layers_of_chunk) {
      chunks = std::max<std::int64_t>(1, blocks / parallel.pp / *layers_of_chunk);
    }
    parallel.schedule = chunks.value_or(1) > 1 ? "interleaved" : "1f1b";
    if (chunks.value_or(1) > 1) parallel.virtual_stages = chunks;
    if (parallel.split) return;
    const std::int64_t all = parallel.pp * chunks.value_or(1);
    if (all > blocks) return wrong(fmt::format("{} {}: fewer than the {} stages", layers, blocks, all), "fewer stages");
    parallel.split = layout::even_split(static_cast<int>(all), blocks);
  }

  void state() {
    std::int64_t& level = job_.config.memory.zero.emplace(has(distributed) ? 1 : 0);
    const std::string* strategy = find(sharding);
    if (has(fsdp2)) level = 3;
    if (!has(fsdp)) return;
    const std::map<std::string_view, std::int64_t> levels{
        {"no_shard", 0}, {"optim", 1}, {"optim_grads", 2}, {"optim_grads_params", 3}};
    const auto found = strategy == nullptr ? levels.begin() : levels.find(*strategy);
    if (found == levels.end()) return wrong(fmt::format("{} {}: not known here", sharding, *strategy), "optim_grads_params");
    level = found->second;
  }

  void system() {
    planner::System& system = job_.system;
    const std::string* backend = find(attention);
    system.tiled_attention = backend == nullptr || (*backend != "unfused" && *backend != "local");
    system.gradient_bytes = has(short_sums) || dtype_of(job_.config) == DType::f32 ? 2 : 4;
    system.hides_reductions = has(hides_sums);
    system.hidden_sums = has(hides_tensor_sums) ? planner::System::HiddenSums::all : planner::System::HiddenSums::none;
    system.hides_messages = job_.config.parallel.virtual_stages && !has(waits_for_messages);
    // Masks of dropout, and both products that a gated model's activation comes from beside its one result.
    const RunConfig::Model& model = job_.config.model;
    system.kept = {.outside = model.dropout > 0 ? 5.0 : 4.0, .queries = 2, .keys = 2, .ffn = model.activation.gated ? 1.5 : 2.0};
    system.kept_selective = system.kept;
    system.reduces_microbatches = job_.config.memory.zero.value_or(0) >= 2;
    system.layouts.most_zero = std::max(1, static_cast<int>(job_.config.memory.zero.value_or(0)));
  }

  bool is_known(std::string_view name) const {
    return std::ranges::find(arguments(), name, &Argument::name) != arguments().end() || name == global_batch;
  }
  /// What nothing above has read.
  void leftovers() {
    std::vector<std::string> uncounted, known{std::string(global_batch), std::string(granularity), std::string(virtual_stages)};
    for (const Argument& argument : arguments()) known.emplace_back(argument.name);
    for (const auto& [name, value] : given_) {
      if (std::ranges::find(used_, name) != used_.end()) continue;
      if (const std::string_view reason = reason_against(name); !reason.empty() && value != "1") {
        wrong(fmt::format("{} {}: {}", name, value, reason), "plan read tells of dense transformers");
      } else if (is_uncounted(name)) {
        uncounted.push_back(name);
      } else if (is_harmless(name) || !reason.empty()) {
        ++job_.ignored;
      } else {
        const std::string near = nearest_name(name, known);
        job_.notes.push_back(fmt::format("{} is not known here and was left out{}", name,
                                         near.empty() ? "" : fmt::format("; did you mean {}?", near)));
      }
    }
    if (!uncounted.empty()) job_.notes.push_back(fmt::format("not counted: {}", fmt::join(uncounted, ", ")));
  }

  const std::string& file_;
  std::map<std::string, std::string, std::less<>> given_;
  std::vector<std::string> used_;
  ForeignJob job_;
  std::vector<Problem> problems_;
};

/// A layout's arguments, a line each.
class Writer {
 public:
  void setting(const Argument& argument, const RunConfig& config) {
    std::string value = value_of(config, argument.key);
    if (argument.use == Argument::Use::read || value == "null" || value == argument.off) return;
    if (!argument.only_with.empty() && value_of(config, argument.only_with) == "1") return;
    if (!argument.beside.empty()) lines_.emplace_back(argument.beside);
    if (!argument.on.empty()) return flag(argument, value);
    if (!argument.words.empty()) value = std::ranges::find(argument.words, std::string_view(value), &Word::ours)->theirs;
    say(argument.name, value);
  }
  void has_none(std::string_view key, std::string_view value) {
    problems_.push_back(
        {fmt::format("--out: Megatron-LM has no argument for {} = {}", key, value), "leave --out away; or another --system"});
  }
  void say(std::string_view name, const auto& value) { lines_.push_back(fmt::format("{} {}", name, value)); }

  void pipeline(const layout::ParallelPlan& plan, std::int64_t blocks) {
    const std::vector<std::int64_t> even = layout::even_split(plan.stages(), blocks);
    const std::vector<std::int64_t>& split = plan.split.empty() ? even : plan.split;
    if (plan.pp > 1 && (split != even || blocks % plan.stages() != 0)) {
      say(stages, fmt::format("\"{}\"", stages_text(split)));
    } else if (plan.chunks > 1) {
      say(virtual_stages, plan.chunks);
    }
  }
  void memory(const layout::ParallelPlan& plan) {
    if (layout::zero_level(plan) > 0) lines_.emplace_back(distributed);
    if (plan.recompute.kind == layout::Recompute::Kind::selective) say(granularity, "selective");
    if (plan.recompute.kind != layout::Recompute::Kind::full) return;
    say(granularity, "full");
    say(method, uniform);
    say(together, plan.recompute.every);
  }
  void check() {
    if (!problems_.empty()) throw UserError(std::move(problems_));
  }
  std::string text() const { return fmt::format("{}\n", fmt::join(lines_, "\n")); }

 private:
  void flag(const Argument& argument, std::string_view value) {
    if (value == argument.on) {
      lines_.emplace_back(argument.name);
      return;
    }
    const bool near = argument.on == "swiglu" && value == "gelu_tanh";  // as fast as its own
    if (!near) has_none(argument.key, value);
  }

  std::vector<std::string> lines_;
  std::vector<Problem> problems_;
};

}  // namespace

std::string written(const NamedModel& model, const planner::Work& work, const planner::Candidate& candidate, std::int64_t batch) {
  RunConfig config = recipe_of(model, work, candidate);
  config.model.block_size = work.positions;
  config.model.vocab_size = work.model.vocabulary;
  config.model.ffn_width = work.model.ffn_width;
  if (config.model.qkv_bias == config.model.bias) config.model.qkv_bias.reset();
  Writer writer;
  for (const std::string_view key : missing_settings()) {
    if (const std::string value = value_of(config, key); value != value_of({}, key)) writer.has_none(key, value);
  }
  for (const Argument& argument : arguments()) writer.setting(argument, config);
  writer.check();
  writer.say(global_batch, batch);
  writer.pipeline(candidate.plan, work.model.layers);
  writer.memory(candidate.plan);
  return writer.text();
}

bool is_own(std::string_view head) { return head.starts_with(fmt::format("{} ", layers)); }

ForeignJob read(std::string_view text, const std::string& file) { return Reader(file).read(script_words(text, file)); }

}  // namespace lockstep::app::megatron
