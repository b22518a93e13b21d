#include "app/train/train_rank.h"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "app/cli/build_info.h"
#include "app/cli/commit.h"
#include "app/folder/folder_owner.h"
#include "app/folder/run_folder.h"
#include "app/folder/run_record.h"
#include "app/folder/text_folder.h"
#include "app/gpu/device_option.h"
#include "app/plan/machine_file.h"
#include "app/settings/run_layout.h"
#include "app/start/assemble.h"
#include "app/start/copies.h"
#include "app/start/cut_state.h"
#include "app/start/memory_limit.h"
#include "app/start/references.h"
#include "app/start/resources.h"
#include "app/start/roles.h"
#include "app/start/run_start.h"
#include "app/start/run_text.h"
#include "app/start/startup.h"
#include "app/start/step_batch.h"
#include "app/start/text_ends.h"
#include "app/start/training_data.h"
#include "app/train/run_summary.h"
#include "app/train/task_lines.h"
#include "app/train/trainer_options.h"
#include "base/units.h"
#include "checkpoint/find.h"
#include "comm/agreement.h"
#include "data/corpus.h"
#include "data/prepare/dataset.h"
#include "device/choose_device.h"
#include "io/appended_file.h"
#include "train/evaluator.h"
#include "train/report/book_lines.h"
#include "train/report/drill_fault.h"
#include "train/report/history.h"
#include "train/report/log_lines.h"
#include "train/report/metrics_file.h"
#include "train/report/plain_lines.h"
#include "train/report/progress_bar.h"
#include "train/report/run_trace.h"
#include "train/report/step_dump.h"
#include "train/report/tensorboard.h"
#include "train/report/wandb.h"
#include "train/saving/save.h"
#include "train/trainer.h"

namespace lockstep::app {
namespace {

/// A run as its ranks agreed on it, before any of them trains.
struct Run {
  RunConfig config;  ///< as its start wants it
  const TrainCall& call;
  Session& session;
  Log& log;
  RunFolder folder;
  Start start;
  std::string name;
  data::Corpus corpus;
  Json published;                          ///< what is kept of the model that its weights come from
  Json identity;                           ///< rank 0's: what checkpoints keep to know the run again
  std::unique_ptr<train::OpSpans> traced;  ///< what kernels tell with log.trace; null: nothing
  std::unique_ptr<ops::Ops> ops;
  const AssembledRank made;
  const train::EngineConfig& settings() const { return made.engine; }
};

/// Steps of the whole run. Where the epochs of ranks differ in length, the shortest counts.
struct Steps {
  std::int64_t all = 0;
  std::int64_t epoch_samples = 0;  ///< of all ranks; 0: there are no epochs
};

/// Where the run stands before its first step now.
train::RunState stand_of(const Start& start) {
  return start.resumes ? train::state_of(start.checkpoint->manifest) : train::RunState();
}

train::TrainerOptions trainer_options(const Run& run, const Steps& steps, std::int64_t batch) {
  const RunConfig& config = run.config;
  std::int64_t ranks = run.settings().plan.dp;
  if (run.start.resumes) ranks = kept_scaling(run.start.checkpoint->manifest, batch).value_or(ranks);
  train::TrainerOptions options = trainer_options_of(config, steps.all, ranks);
  options.sample_ends = sample_ends(run.corpus, run.published, run.settings().model.vocabulary, run.log);
  options.epoch_samples = steps.epoch_samples;
  if (const double peak = config.train.peak_tflops ? 0 : peak_flops(run.session.runtime()); peak > 0) options.peak_flops = peak;
  options.folder = run.folder.path();
  options.started = run.call.started;
  options.run = carried(config, run.start, run.name, run.corpus, run.published, run.identity);
  if (config.optimizer.lr_scaling != LrScaling::none) options.run.set(scaling_key, ranks);
  options.held = &run.folder.held();
  options.before_save = [&run] { run.folder.demand(run.log); };
  options.watches = run.session.leads_process();
  return options;
}

/// A prompt that the text has nothing of would give no samples.
void settle_prompt(RunConfig::Sample& sample, const data::Tokenizer* tokenizer, Log& log) {
  const auto is_known = [&](std::string_view prompt) {
    std::string unknown;
    return tokenizer == nullptr || !data::ids_of(*tokenizer, prompt, unknown).empty();
  };
  if (sample.tokens == 0 || is_known(sample.prompt) || !is_known("\n")) return;
  log.info(
      fmt::format("sample.prompt = {}: the text has none of these characters, so samples begin with a line feed", sample.prompt));
  sample.prompt = "\n";
}

/// Start, name and text of the run, the same on all ranks, and what this rank does in it. Collective.
Run open_run(RunConfig config, const TrainCall& call, const Roles& roles, Session& session, Log& log) {
  RunFolder folder(config, run_folder(config, call.name), session.world(), log);
  Start start = choose_start(config, folder.path(), session, log);
  settle_bf16_order(config, start, session);
  std::vector<Problem> problems;
  if (start.resumes) problems = keep_global_batch(config, *start.checkpoint, workers_of(config, session.world().size()), log);
  std::string name = name_of_run(config, start, folder.path());
  data::Corpus corpus = open_text(config, roles, session, log);
  const TextFacts text = text_facts(config, corpus, problems);
  const std::int64_t vocabulary = model_config(config, text.vocabulary).vocabulary;
  settle_prompt(config.sample, corpus.tokenizer.get(), log);
  if (!corpus.tokenizer) demand_description(start, data_folder(config), vocabulary);
  Json published = published_of(config, start, corpus, session.world());
  Json identity = identify_run(config, start, vocabulary, std::move(problems), session, log);
  auto traced = config.log.trace && !roles.serves() ? std::make_unique<train::OpSpans>() : nullptr;
  std::unique_ptr<ops::Ops> ops = session.make_ops(traced.get(), config.numerics.bf16);
  AssembledRank made = assemble(config, text, roles, session, *ops);
  return {.config = std::move(config),
          .call = call,
          .session = session,
          .log = log,
          .folder = std::move(folder),
          .start = std::move(start),
          .name = std::move(name),
          .corpus = std::move(corpus),
          .published = std::move(published),
          .identity = std::move(identity),
          .traced = std::move(traced),
          .ops = std::move(ops),
          .made = std::move(made)};
}

bool as_wordplay(const Run& run) { return run.config.log.style == train::LogStyle::wordplay; }

/// What rank 0 says before the first step. Collective over the session's ranks.
void announce(const Run& run, const Steps& steps, std::int64_t batch) {
  const RunConfig& config = run.config;
  const train::RunState state = stand_of(run.start);
  if (config.log.style == train::LogStyle::rasbt) {
    run.log.plain(fmt::format("Lockstep version: {}\nUsing {}\n", kVersion, name_of(run.session.runtime().device().kind)));
  }
  if (!run.call.idle.empty()) run.log.info(run.call.idle);
  if (config.log.wandb == WandbMode::offline && config.train.use_wandb && !keeps_wandb_history(config))
    run.log.info("log.wandb = offline: WANDB_DISABLED is set, so nothing is written for it");
  const auto left = static_cast<double>(std::max<std::int64_t>(0, steps.all - state.step));
  const StartupFacts facts{.config = config,
                           .settings = run.settings(),
                           .corpus = run.corpus,
                           .run_folder = run.folder.path().string(),
                           .run_name = run.name,
                           .steps = steps.all,
                           .samples_seen = static_cast<double>(state.next_sample) + left * static_cast<double>(batch)};
  as_wordplay(run) ? log_startup(run.log, facts, run.session) : log_plainly(run.log, facts, run.session);
}

/// Steps that were taken before a resume may have had fewer samples, or more. Collective over `trainers`.
Steps length_of_run(const Run& run, const TrainingData& data, std::int64_t batch, comm::Communicator& trainers) {
  if (order_of(run.config) != data::Order::partition) return {.all = run.config.train.max_iters};
  std::int64_t per_epoch = data.steps_per_epoch();
  trainers.host().all_reduce(view(std::span(&per_epoch, 1), Shape{1}), comm::Reduction::min).wait();
  Steps steps{.all = steps_of(run.config, per_epoch), .epoch_samples = per_epoch * batch};
  const train::RunState state = stand_of(run.start);
  if (run.config.train.max_epochs) steps.all = state.step + std::max<std::int64_t>(0, steps.all - state.next_sample / batch);
  return steps;
}

/// What was asked for and lies behind the run's end, where only the text tells how long its epochs are.
void warn_of_length(const Run& run, const Steps& steps) {
  const RunConfig::Train& train = run.config.train;
  if (!train.max_epochs || train.eval_only) return;
  const std::string so_many = fmt::format("train.max_epochs = {} makes {} iterations", *train.max_epochs, steps.all);
  if (train.dump_step && *train.dump_step >= steps.all)
    run.log.warning(fmt::format("train.dump_step = {}: {}, so none is written", *train.dump_step, so_many));
  if (run.config.optimizer.decay_lr && train.warmup_iters > steps.all)
    run.log.warning(fmt::format("train.warmup_iters = {}: {}, so the rate stays below its highest", train.warmup_iters, so_many));
}

/// A resume that trains nothing says so: a run that was to go on needs more steps than it has taken.
void warn_of_no_step(const Run& run, const Steps& steps, const train::RunState& state) {
  const RunConfig::Train& train = run.config.train;
  if (state.step == 0 || state.step < steps.all || train.eval_only) return;
  const auto [name, value] =
      train.max_epochs ? std::pair("train.max_epochs", *train.max_epochs) : std::pair("train.max_iters", train.max_iters);
  run.log.warning(fmt::format("{} = {}: the run has taken {} steps, so none is left; a larger {} trains on", name, value,
                              format_count(state.step), name));
}

/// A run's memory beside the engine's.
struct Memories {
  Arena data{"batches", MemoryKind::data};
  Arena sampling{"sampling", MemoryKind::workspace};
  Arena cache{"sampling_cache", MemoryKind::workspace};
};

/// All memory that the run will have, said in a table and allocated. Returns what this rank has for it.
Resources commit(const Run& run, train::Engine& engine, TrainingData& data, train::TextSampler& sampler, Memories& memories) {
  data.declare(memories.data);
  sampler.declare(memories.sampling, memories.cache);
  Runtime& runtime = run.session.runtime();
  Ledger taken = engine.commit();
  Resources had{.ranks = run.settings().plan.ranks(),
                .servers = servers_of(run.config),
                .ranks_per_host = run.settings().plan.ranks_per_host,
                .threads = run.session.team().size(),
                .device = std::string(name_of(runtime.device().kind)),
                .vocabulary = run.settings().model.vocabulary,
                .taken = by_kind(taken),
                .beside = -taken.total(),
                .disk = disk_bytes(run.settings(), engine.groups().at(), taken),
                .kept_parts = run.settings().plan.kept};
  memories.data.commit(runtime.memory(Space::pinned), taken);
  for (Arena* arena : {&memories.sampling, &memories.cache}) arena->commit(runtime, taken);
  const char* whose = run.session.world().size() > 1 ? " of one rank" : "";
  if (as_wordplay(run)) {
    run.log.info(fmt::format("memory{}:\n", whose) + taken.table());
    run.log.info("memory by layer:\n" + taken.layer_table());
  } else {
    run.log.info(fmt::format("Memory:   {}{}", format_bytes(static_cast<std::uint64_t>(taken.total())), whose));
  }
  for (const std::string& note : notes_on_cut_state(run.settings())) run.log.info(note);
  for (const std::string& note : notes_on_offload(run.config, run.settings(), engine.elsewhere())) run.log.info(note);
  for (const std::string& note : notes_on_tiles(run.config, run.settings())) run.log.info(note);
  had.beside += taken.total();
  return had;
}

/// The run's own files, once nothing is left that could refuse it. For rank 0.
void record(const Run& run, const Resources& had) {
  run.folder.prepare_metrics(run.start.resumes, run.log);
  if (run.start.resumes && run.config.train.eval_only) return;  // the run stays as it is
  auto copies = std::make_shared<io::AppendedFile>(run.folder.path() / "log.txt");
  run.log.also_to([copies](const std::string& copy) { copies->append(copy); });
  write_run_files(run.config, run.name, run.folder.path(), run.call.arguments);
  write_resources(run.folder.path(), had);
}

/// The last words before the first step.
void announce_start(const Run& run, const std::string& note) {
  if (as_wordplay(run)) {
    run.log.info(fmt::format("Startup time: {:.4f}", now_seconds() - run.call.started));
    run.log.info("\n" + train::legend());
  }
  if (!note.empty()) run.log.info(note);
}

/// Every replica judges all of them: it may have a part of the weights alone.
std::unique_ptr<TaskLines> task_lines(const Run& run, std::vector<data::Task> tasks, train::Engine& engine) {
  std::unique_ptr<io::AppendedFile> file;
  if (run.session.lead()) file = std::make_unique<io::AppendedFile>(run.folder.path() / "tasks.jsonl");
  const JudgeParts parts{.model = engine.share(),
                         .tokenizer = *run.corpus.tokenizer,
                         .groups = engine.groups(),
                         .runtime = run.session.runtime(),
                         .log = run.log,
                         .divides = false};
  return std::make_unique<TaskLines>(std::move(tasks), parts, std::move(file));
}

/// Who is told of a run that starts behind `state`, in this order.
train::RunListeners outputs_of(const Run& run, const Steps& steps, const train::RunState& state, const train::MemoryUse& memory,
                               train::Engine& engine, train::TrainingHistory& history, std::vector<data::Task> tasks) {
  const RunConfig& config = run.config;
  const io::Path& folder = run.folder.path();
  train::RunListeners outputs;
  const auto add = [&]<class Output>(std::unique_ptr<Output> output) { outputs.push_back(std::move(output)); };
  add(std::make_unique<train::HistoryKeeper>(history));
  train::add_drill(outputs, engine, run.log);
  if (!tasks.empty()) add(task_lines(run, std::move(tasks), engine));
  if (run.traced)
    add(std::make_unique<train::RunTrace>(run.folder.trace_file(), config.log.trace_steps, run.traced->log(),
                                          engine.groups().all(), run.log));
  if (const auto& step = config.train.dump_step) add(std::make_unique<train::StepDump>(folder, *step, engine, run.log));
  if (as_wordplay(run)) {
    add(std::make_unique<train::LogLines>(run.log, config.sample.prompt));
  } else if (config.log.style == train::LogStyle::plain || config.train.eval_only) {
    add(std::make_unique<train::PlainLines>(run.log, steps.all));
  } else {
    add(std::make_unique<train::BookLines>(run.log, train::BookLines::Epochs{steps.epoch_samples, engine.global_batch()},
                                           engine.groups().all().size() > 1, memory));
  }
  if (!run.session.lead()) return outputs;
  if (run.call.live && !config.train.eval_only) add(std::make_unique<train::RunBar>(run.log, steps.all));
  if (config.log.tensorboard)
    add(std::make_unique<train::EventFile>(folder / "tensorboard", state.step == 0 ? 0 : state.step + 1));
  if (keeps_wandb_history(config))
    add(std::make_unique<train::WandbHistory>(folder, state.step, now_seconds() - run.call.started,
                                              run.settings().plan.microbatches));
  add(std::make_unique<train::MetricsFile>(folder / "metrics.jsonl", run.name));
  if (!config.train.eval_only) add(std::make_unique<train::SamplesFile>(folder / train::samples_file, run.name));
  return outputs;
}

/// The whole training of a rank that trains. Collective over those.
train::TrainingHistory train_run(const Run& run, const Roles& roles) {
  Session& session = run.session;
  Memories memories;  // first, so that it goes last: a thread of the text's reads ahead into it
  train::Engine engine(run.settings(), session.runtime(), *run.ops, roles.group(), roles.updater());
  const parallel::Groups& groups = engine.groups();
  std::vector<data::Task> tasks = tasks_of(run.config, run.corpus, session.world());
  TrainingData text(run.config, run.settings(), run.corpus, session, groups.data(), run.log);
  const Steps steps = length_of_run(run, text, engine.global_batch(), groups.all());
  demand_memory({run.config, run.settings(), groups.at(), session.runtime().device(), run.made.memory}, session.world());
  announce(run, steps, engine.global_batch());
  warn_of_length(run, steps);
  train::TextSampler sampler(engine.share());
  Resources had = commit(run, engine, text, sampler, memories);
  if (run.traced) engine.observe(run.traced->log());
  engine.match_ranks();
  const train::RunState state = load_start(run.config, run.start, engine, session, run.log);
  warn_of_no_step(run, steps, state);
  const Json references = bring_references(run.config, run.start, run.corpus, run.identity, text, engine, session, run.log);
  train::TrainerOptions options = trainer_options(run, steps, engine.global_batch());
  options.hosts = quiet_hosts(session, groups.all());
  if (makes_copies(run.config)) options.copies = copy_place(run.folder.path(), groups.all());
  if (options.copies) run.log.info(describe(*options.copies));
  if (!references.is_null()) options.run.set("references", references);
  had.peak_flops = options.peak_flops;
  if (!run.config.train.eval_only && state.step < steps.all) train::demand_room(run.folder.path(), engine);
  if (session.lead()) record(run, had);
  train::Trainer trainer(std::move(options), {engine, text.batches(), text.train_windows(), text.val_windows(), sampler,
                                              run.corpus.tokenizer.get(), session.team(), run.log});
  train::TrainingHistory history;
  const train::MemoryUse memory{.kept = had.kept_bytes(), .committed = had.all_bytes()};
  const std::int64_t batches = text.train_windows().batches() + text.val_windows().batches();
  announce_start(run, train::note_of_long_evaluation(engine, batches, had.peak_flops));
  trainer.run(state, outputs_of(run, steps, state, memory, engine, history, std::move(tasks)));
  engine.control().leave();
  return history;
}

}  // namespace

train::TrainingHistory train_rank(RunConfig config, const TrainCall& call, Session& session) {
  Log log(call.out, session.lead() || logs_from_all_ranks(config) ? Level::info : Level::critical, log_form(config));
  if (session.lead()) log.keep();
  comm::demand_agreement(session.world(), "programs", fmt::format("{} by {} {}", program_version(), kCompiler, kFlags));
  comm::demand_agreement(session.world(), "settings", to_toml(config));
  comm::together(session.world(), [&] {
    if (session.lead() && config.log.machine) named_machine(*config.log.machine, 0);
  });
  const Roles roles(config, session.world());
  const Run run = open_run(std::move(config), call, roles, session, log);
  if (roles.serves()) {
    demand_memory({run.config, run.settings(), {}, session.runtime().device(), run.made.memory, true}, session.world());
    announce(run, {}, 0);
    roles.serve(run.settings(), session, *run.ops, call.started);
    return {};
  }
  train::TrainingHistory history = train_run(run, roles);
  if (session.lead()) print_summary(history, run.folder.path(), run.config, session, call.out);
  return history;
}

RankOptions rank_options(const RunConfig& config, std::int64_t ranks) {
  return {.ranks = ranks,
          .servers = servers_of(config),
          .threads = config.train.threads.value_or(0),
          .isa = config.numerics.isa,
          .products = config.numerics.products,
          .plain = plain_kernels_of(config),
          .bf16 = config.numerics.bf16,
          .device = config.train.device ? std::string(name_of(*config.train.device)) : "",
          .takes_gpu = config.train.audit == 0,  // which looks at gradients in the host's memory
          .timeout = config.comm.timeout};
}

void prepare_data(const RunConfig& config, Log& log) {
  if (config.train.init_from.kind == InitFrom::Kind::resume)
    checkpoint::choose_checkpoint(run_folder(config, ""), "last");  // throws without one
  if (config.data.dir) return;
  const std::string folder = data_folder(config);
  std::vector<Problem> problems =
      check_place(folder, FolderOwner::data, "the data set's folder " + folder, "data.root_path=FOLDER");
  if (!problems.empty()) throw UserError(std::move(problems));
  data::ensure_dataset({.name = config.data.dataset,
                        .folder = folder,
                        .file = config.data.file,
                        .tokenizer = [&] { return model_tokenizer(config); }},
                       log);
}

}  // namespace lockstep::app
