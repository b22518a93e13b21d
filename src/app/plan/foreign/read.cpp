// `lockstep plan read FILE MACHINE`: another system's job, told before it runs.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "app/folder/answer_line.h"
#include "app/plan/foreign/deepspeed_plan.h"
#include "app/plan/foreign/exported.h"
#include "app/plan/foreign/megatron.h"
#include "app/plan/machine_file.h"
#include "app/plan/named_model.h"
#include "app/plan/predicted_run.h"
#include "app/plan/questions.h"
#include "app/plan/recipe_layout.h"
#include "app/plan/search/calibration.h"
#include "app/plan/search/found_table.h"
#include "app/plan/search/winner.h"
#include "app/settings/keys.h"
#include "app/settings/run_layout.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/text/trimmed.h"
#include "base/text/visible.h"
#include "base/units.h"
#include "io/file.h"
#include "layout/pipeline/split.h"
#include "planner/search.h"

namespace lockstep::app {
namespace {

constexpr std::int64_t most_count = 1 << 24;

struct Options {
  std::string file, machine, model, recompute, calibrate;
  std::optional<std::int64_t> gpus;
  std::int64_t nodes = 0, positions = 0, samples = 0, batch = 0;
  double tokens = 0, price = 0;
};

void declare(AnswerLine& line, Options& options) {
  line.positional("FILE", options.file, "a shell script or a list of Megatron-LM's arguments, or DeepSpeed's .json");
  line.positional("MACHINE", options.machine, machine_names(), true, {"--machine"});
  line.option("--model", options.model, "NAME|FILE", "of DeepSpeed's file: preset, recipe.toml, or config.json");
  line.count("--nodes", options.nodes, "N", "of the machine; 0: as the file or the machine says", 0, most_count);
  line.option("--gpus", options.gpus, "N", "in all, in place of --nodes: a part of a node, or whole ones", most_count);
  line.count("--seq", options.positions, "T", "of DeepSpeed's: positions of a sample; 0: the model's context", 0, most_count);
  line.count("--global-batch", options.batch, "B", "samples of a step in place of the file's; 0: as it says", 0, most_count);
  line.count("--micro-batch", options.samples, "B", "samples of a micro-batch in place of the file's; 0: as it says", 0,
             most_count);
  line.choice("--recompute", options.recompute, {"", "none", "full"},
              "whether blocks are run again, where the file does not say");
  line.option("--calibrate", options.calibrate, "TOKENS|LINE",
              "tokens a second that this job reached, or another layout of it (\"tp=2,dp=4: 12000\"): rates follow");
  line.ask_out("FILE", "the fastest layout in the same form", is_exported);
  line.option("--tokens", options.tokens, "N", "days for so many tokens; 0: left out");
  line.option("--price", options.price, "P", "of a device for an hour: what these days cost");
  line.ask_csv();
  line.note(
      "examples:\n"
      "  lockstep plan read pretrain_llama.sh h100 --gpus 64\n"
      "  lockstep plan read ds_config.json a100 --model llama3_8B --gpus 16 --seq 4096");
}

bool is_json(const std::string& file, std::string_view text) { return file.ends_with(".json") || trimmed(text).starts_with('{'); }

/// The model of the file or the one that is named, with the file's layout.
NamedModel model_of(const Options& options, const ForeignJob& job) {
  if (job.has_model) {
    if (!options.model.empty())
      throw UserError(fmt::format("--model {}: {} has a model", options.model, options.file), "leave --model out");
    return {.name = options.file, .config = job.config, .setting = ""};
  }
  if (options.model.empty()) throw UserError(fmt::format("{}: {} has no model", options.file, job.form), "--model NAME");
  NamedModel model = named_model(options.model, options.positions);
  model.config.parallel = job.config.parallel;
  model.config.memory = job.config.memory;
  model.config.optimizer.gas = job.config.optimizer.gas;
  model.config.train.dtype = job.config.train.dtype;
  model.config.train.backend = BackendKind::ddp;
  model.config.model.batch_size = job.config.model.batch_size;
  return model;
}

planner::Machine machine_of(const Options& options, const ForeignJob& job) {
  planner::Machine machine = named_machine(options.machine, options.nodes);
  if (options.nodes > 0 && options.gpus) {
    throw UserError(fmt::format("--nodes {} and --gpus {}: two numbers of devices", options.nodes, *options.gpus), "one of them");
  }
  if (options.gpus) return with_devices(std::move(machine), options.gpus);
  if (options.nodes > 0) return machine;
  if (job.devices > 0) machine.devices = job.devices;
  if (job.nodes > 0) machine.nodes = job.nodes;
  if (std::vector<Problem> problems = check(machine); !problems.empty()) throw UserError(std::move(problems));
  return machine;
}

/// Ranks with different samples.
std::int64_t replicas_of(const RunConfig& config, const Options& options, std::int64_t ranks) {
  const std::int64_t of_model = ranks_of_model(config);
  if (ranks % of_model == 0) return ranks / of_model;
  throw UserError(fmt::format("{}: tensor x context x pipeline = {} x {} x {} ranks do not divide {} devices", options.file,
                              config.parallel.tp, config.parallel.cp, config.parallel.pp, ranks),
                  fmt::format("--gpus {}", round_up(ranks, of_model)));
}

/// How often a step of `batch` samples has `unit` of them.
std::int64_t each_of(const Options& options, std::int64_t batch, std::int64_t unit) {
  if (batch / unit <= layout::most_gas) return batch / unit;
  throw UserError(fmt::format("{}: {} samples of a step are {} x {}: at most {} x", options.file, batch, batch / unit, unit,
                              layout::most_gas),
                  "--global-batch N says fewer");
}

/// Ranks with different samples, micro-batches and their samples, which follow from each other. Returns the samples of a step.
std::int64_t settle(RunConfig& config, const Options& options, const ForeignJob& job, std::int64_t ranks) {
  const std::int64_t replicas = replicas_of(config, options, ranks);
  config.parallel.dp = replicas;
  std::optional<std::int64_t> batch = job.batch;
  if (options.batch > 0) batch = options.batch;
  std::int64_t &samples = config.model.batch_size, &steps = config.optimizer.gas;
  if (options.samples > 0) samples = options.samples;
  const bool has_samples = job.has_samples || options.samples > 0, has_steps = job.has_steps && options.batch == 0;
  if (!has_samples && !batch)
    throw UserError(fmt::format("{}: neither samples of a step nor of a micro-batch are in it", options.file), "--micro-batch N");
  if (!has_steps && !(has_samples && batch)) steps = 1;
  if (!batch) return replicas * samples * steps;
  const std::int64_t unit = replicas * (has_samples ? samples : steps);
  if (*batch % unit != 0 || (has_samples && has_steps && *batch != unit * steps)) {
    throw UserError(fmt::format("{}: {} samples of a step are not {}{} ranks x {}{}", options.file, *batch,
                                has_steps && has_samples ? "" : "a multiple of ", replicas, has_samples ? samples : steps,
                                has_steps && has_samples ? fmt::format(" x {} micro-batches", steps) : ""),
                    fmt::format("--global-batch {}", round_up(*batch, unit * (has_samples && has_steps ? steps : 1))));
  }
  (has_samples ? steps : samples) = each_of(options, *batch, unit);
  return *batch;
}

/// Stages as even as they can be, where the file has no others.
void split_stages(RunConfig& config) {
  RunConfig::Parallel& parallel = config.parallel;
  const std::int64_t stages = parallel.pp * parallel.virtual_stages.value_or(1);
  if (parallel.pp > 1 && !parallel.split && stages <= config.model.n_layer)
    parallel.split = layout::even_split(static_cast<int>(stages), config.model.n_layer);
}

/// The settings of a layout, and its stages where they are not as even as can be.
std::string layout_of_job(const planner::Work& work, const planner::Candidate& candidate) {
  const layout::ParallelPlan& plan = candidate.plan;
  const bool even = plan.split.empty() || plan.split == layout::even_split(plan.stages(), work.model.layers);
  return layout_text(settings_of(work, candidate)) + (even ? "" : " split=" + layout::to_string(plan.split));
}

std::string bytes_text(double bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

/// Whether the layout fits, a line each of what it has; and says so.
bool say_fit(const planner::Work& work, const planner::DeviceMemory& memory, Answer& answer) {
  const double room = work.machine.usable_memory(), device = static_cast<double>(memory.bytes);
  const double host = static_cast<double>(memory.host_bytes) * static_cast<double>(work.machine.devices);
  const bool fits = device <= room && host <= work.machine.host_memory;
  answer.say(fmt::format(
      "{}: {} of {} a device{}\n", fits ? "it fits" : "it does not fit", bytes_text(device), bytes_text(room),
      host > 0 ? fmt::format(", {} of {} of a node's memory", bytes_text(host), bytes_text(work.machine.host_memory)) : ""));
  answer.facts({{"fits", fits}, {"device_bytes", memory.bytes}, {"usable_bytes", room}, {"host_bytes", memory.host_bytes}});
  return fits;
}

/// The step's seconds, tokens and parts.
void say_cost(const planner::SearchQuestion& question, const planner::Found& own, Answer& answer) {
  const double seconds = own.time.total();
  const double tokens = static_cast<double>(question.global_batch * question.work.positions) / seconds;
  const double each = tokens / static_cast<double>(question.work.machine.ranks());
  answer.say(
      fmt::format("a step takes {}: {:.0f} tokens a second, {:.0f} of each device\n", format_seconds(seconds), tokens, each));
  answer.facts({{"step_seconds", seconds}, {"tokens_per_second", tokens}, {"tokens_per_second_of_device", each}});
}

/// What the search finds beside it; the best that fits, where there is one.
std::optional<planner::Found> say_faster(const planner::SearchQuestion& question, const planner::Found& own, bool fits,
                                         Answer& answer) {
  const planner::SearchResult result = planner::search(question, 1);
  std::vector<planner::Found> rows{own};
  std::vector<std::string> names{"the file's"};
  std::optional<planner::Found> best;
  if (!result.best.empty()) best = result.best.front();
  constexpr double gain = 1.005;  // what formulas tell
  const double factor = best ? own.time.total() / best->time.total() : 0;
  if (!best) {
    answer.say(fmt::format("\nno layout fits{}\n", result.needed.empty() ? "" : ": the nearest needs " + result.needed));
  } else if (fits && factor < gain) {
    answer.say(fmt::format("\nnone of {} layouts that were looked at is faster\n", format_count(result.legal)));
    best = own;
  } else {
    answer.say(fits ? fmt::format("\nfaster, {:.2f} x, of {} layouts that were looked at:\n", factor, format_count(result.legal))
                    : fmt::format("\nthe fastest that fits, of {} layouts that were looked at:\n", format_count(result.legal)));
    rows.push_back(*best);
    names.emplace_back(fits ? "faster" : "fits");
  }
  answer.facts({{"layouts", result.legal}, {"faster_by", best ? Json(factor) : Json(nullptr)}});
  answer.table("compared", table_of(question, rows, names));
  return best;
}

}  // namespace

int plan_read(const Arguments& arguments) {
  Options options;
  AnswerLine line(
      "plan read",
      "Another system's job: does it fit, what does it cost, and what would be faster. Megatron-LM's arguments (core "
      "0.20) stand in a shell script or a list; DeepSpeed's stand in its JSON, with --model. What the planner does not "
      "count is named.");
  declare(line, options);
  if (!line.read(arguments)) return 0;
  line.demand(options.tokens >= 0 && options.price >= 0, "--tokens and --price: must be 0 or above", "--tokens 300e9 --price 2");
  line.check();
  const std::string text = io::read_document(options.file);
  const ForeignJob job = is_json(options.file, text) ? deepspeed::read(text, options.file) : megatron::read(text, options.file);
  NamedModel model = model_of(options, job);
  RunConfig& config = model.config;
  if (!options.recompute.empty()) config.memory.recompute = layout::recompute_from(options.recompute).value();
  const planner::Machine machine = machine_of(options, job);
  const std::int64_t batch = settle(config, options, job, machine.ranks());
  split_stages(config);
  planner::SearchQuestion question{
      .work = planner::Work(model.model(), config.model.block_size, machine, system_of(config, job.system)),
      .global_batch = batch};
  planner::Work& work = question.work;
  const planner::Candidate candidate = candidate_of(config, work);
  const std::string layout = layout_of_job(work, candidate);
  Answer answer;
  answer.say(fmt::format("{}, {} {}\n{}\n", visible(options.file), job.form, asked_text(question), layout));
  answer.say(model.note);
  for (const std::string& note : job.notes) answer.say(fmt::format("{}\n", visible(note)));
  answer.facts({{"file", options.file},
                {"form", job.form},
                {"machine", machine.name},
                {"ranks", machine.ranks()},
                {"layout", layout},
                {"notes", Json::Array(job.notes.begin(), job.notes.end())},
                {"ignored", job.ignored}});
  if (!options.calibrate.empty()) {
    const auto tokens = number_from<double>(options.calibrate);
    work.machine =
        planner::scaled(work.machine, tokens ? calibrated_by(*tokens, work, candidate, batch, answer)
                                             : calibrated(options.calibrate, model, question, options.machine, answer));
  }
  answer.say("\n");
  const planner::Found own{candidate, planner::simulated_time(work, candidate), planner::device_memory(work, candidate)};
  const bool fits = say_fit(work, own.memory, answer);
  say_cost(question, own, answer);
  say_duration(question, options.tokens, options.price, own, answer);
  const std::optional<planner::Found> best = say_faster(question, own, fits, answer);
  if (!line.out().empty()) {
    if (!best) throw UserError(fmt::format("--out {}: no layout fits", line.out()), "more devices (--gpus)");
    io::replace_file(line.out(), exported(model, work, best->candidate, batch));
  }
  line.print(answer);
  return 0;
}

}  // namespace lockstep::app
