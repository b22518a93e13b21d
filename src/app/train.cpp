#include "app/train.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>

#include "app/command_line.h"
#include "app/commands.h"
#include "app/manifest.h"
#include "app/settings/resolve.h"
#include "app/startup.h"
#include "base/terminal.h"
#include "base/timer.h"
#include "base/units.h"
#include "checkpoint/find.h"
#include "data/corpus.h"
#include "data/dataset.h"
#include "io/file.h"
#include "lab/machine.h"
#include "train/trainer.h"

namespace lockstep::app {
namespace {

/// A run's arenas beside the engine's.
struct Memories {
  Arena data{"batches", MemoryKind::data};
  Arena sampling{"sampling", MemoryKind::workspace};
  Arena cache{"sampling_cache", MemoryKind::workspace};
};

data::Sampler training_sampler(const RunConfig& config, const data::TokenFile& file) {
  data::SamplerOptions options;
  options.order = order_of(config);
  options.seed = seed_of(config);
  options.name = data::training_sequence(options.order);
  options.tokens = file.tokens();
  options.positions = config.model.block_size;
  options.global_batch = config.model.batch_size * config.optimizer.gas;
  return data::Sampler(options);
}

train::LrSchedule schedule_of(const RunConfig& config, std::int64_t max_iters) {
  train::LrSchedule schedule;
  schedule.kind = train::schedule_from_name(config.optimizer.schedule);
  schedule.decay = config.optimizer.decay_lr;
  schedule.learning_rate = config.optimizer.learning_rate;
  schedule.min_lr = config.optimizer.min_lr;
  schedule.warmup = config.train.warmup_iters;
  schedule.decay_iters = config.optimizer.lr_decay_iters;
  schedule.max_iters = max_iters;
  schedule.wsd_decay = config.optimizer.wsd_decay;
  return schedule;
}

train::TrainerOptions trainer_options(const RunConfig& config, std::int64_t max_iters, const io::Path& folder, double started) {
  train::TrainerOptions options;
  options.max_iters = max_iters;
  options.log_interval = config.train.log_interval;
  options.eval_interval = config.train.eval_interval;
  options.checkpoint_interval = checkpoint_interval(config);
  options.eval_only = config.train.eval_only;
  options.schedule = schedule_of(config, max_iters);
  options.sample = {.tokens = config.sample.tokens,
                    .temperature = config.sample.temperature,
                    .top_k = config.sample.top_k.value_or(0),
                    .top_p = config.sample.top_p,
                    .seed = seed_of(config)};
  options.prompt = config.sample.prompt;
  options.dump_step = config.train.dump_step;
  options.folder = folder;
  options.switches = {config.train.kill_file, config.train.save_file, config.train.max_minutes};
  options.started = started;
  options.live = is_terminal(stdout);
  return options;
}

/// Weights (and on a resume, everything) from where the settings say; where the run then stands.
train::RunState load_start(const RunConfig& config, const io::Path& run, train::Engine& engine, cpu::Team& team, Log& log) {
  const std::string& from = config.train.init_from;
  if (from == "scratch") {
    engine.initialise();
    return {};
  }
  const bool resume = from == "resume";
  const checkpoint::Choice choice = checkpoint::choose_checkpoint(resume ? run : io::Path(from), resume ? "last" : "best");
  for (const std::string& reason : choice.passed_over) log.warning(reason);
  const checkpoint::Reader reader(choice.folder);
  log.info(fmt::format("{} {}", resume ? "Resuming from" : "Starting from the weights of", choice.folder.string()));
  if (resume) return train::load_run(reader, engine, team);
  train::load_weights(reader, engine, team);
  return {};
}

/// What a checkpoint carries so that it can be used without its run: settings and tokenizer.
Json carried(const RunConfig& config, const data::Corpus& corpus) {
  Json run;
  run.set("config", to_json(config));
  run.set("data_folder", std::filesystem::absolute(data_folder(config)).string());
  if (corpus.tokenizer) run.set("tokenizer", corpus.tokenizer->describe());
  return run;
}

void write_run_files(const RunConfig& config, const io::Path& folder, const Arguments& arguments) {
  io::make_folders(folder);
  std::vector<std::string> command_line{"lockstep", "train"};
  command_line.insert(command_line.end(), arguments.begin(), arguments.end());
  io::replace_file(folder / "config.toml", to_toml(config));
  io::replace_file(folder / "config.json", to_json(config).dump(4) + "\n");
  io::replace_file(folder / "environment.json", environment_manifest(command_line).dump(2) + "\n");
}

/// The vocabulary of a text that may not be there yet.
std::int64_t known_vocabulary(const RunConfig& config) {
  const io::Path folder = data_folder(config);
  if (std::filesystem::is_directory(folder)) {
    if (const auto description = data::read_description(folder)) return description->format.vocabulary;
  }
  constexpr std::int64_t tiny_shakespeare = 65;
  return config.data.dataset == "shakespeare_char" && !config.data.dir ? tiny_shakespeare : data::TokenFormat{}.vocabulary;
}

/// "2026-01-31-235959": the name of a run without one.
std::string name_from_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d-%H%M%S", &parts);
  return text.data();
}

int dry_run(const RunConfig& config, std::int64_t vocabulary, Session& session) {
  Log log;
  const train::EngineConfig engine_settings = engine_config(config, vocabulary);
  fmt::print("{}\n", to_json(config, vocabulary).dump(4));
  log_parameters(log, config, engine_settings.model);
  log.info(fmt::format("Tokens per iteration: {}", format_count(tokens_per_iteration(config))));
  const train::Engine engine(engine_settings, session.runtime(), session.ops(), session.world());
  fmt::print("\nMemory of one rank\n{}", engine.ledger().table());
  return 0;
}

void print_summary(const train::TrainingHistory& history, const io::Path& folder, const RunConfig& config) {
  if (!history.train.x.empty()) {
    fmt::print("\n{}\n", plot("loss", "step", {history.train, history.validation}));
  }
  if (!history.sample.empty()) fmt::print("A sample:\n\n{}\n\n", history.sample);
  if (history.tokens_per_second > 0) fmt::print("Speed:       {} tokens/s (median)\n", format_si(history.tokens_per_second));
  if (!history.validation.y.empty())
    fmt::print("Validation:  loss {:.4f} after {} steps\n", history.validation.y.back(), history.steps);
  fmt::print("Run folder:  {}\n", folder.string());
  if (history.stopped) {
    fmt::print(
        "Stopped:     {}; everything is saved. Go on with:\n             lockstep train --config {}/config.toml log.dir={} "
        "train.init_from=resume\n",
        *history.stopped, folder.string(), folder.string());
  } else {
    fmt::print("Try next:    lockstep generate --model {} --prompt \"{}\"\n", folder.string(), config.sample.prompt);
  }
}

// The folder of the run's tokens, which are fetched and prepared where the configuration names a dataset.
io::Path prepared_data(const RunConfig& config, Log& log) {
  io::Path folder = data_folder(config);
  if (!config.data.dir) {
    data::DatasetRequest request;
    request.name = config.data.dataset;
    request.folder = folder;
    request.file = config.data.file;
    data::ensure_dataset(request, log);
  }
  return folder;
}

int train_run(const RunConfig& config, const Arguments& arguments, double started, Session& session, Log& log) {
  const io::Path data_at = prepared_data(config, log);
  const data::Corpus corpus = data::open_corpus(data_at, log);
  const std::string name = name_from_time();
  const io::Path folder = run_folder(config, name);
  const train::EngineConfig settings = engine_config(config, corpus.vocabulary());
  const data::Sampler sampler = training_sampler(config, corpus.train);
  const std::int64_t max_iters =
      config.train.max_epochs ? *config.train.max_epochs * sampler.steps_per_epoch() : config.train.max_iters;
  write_run_files(config, folder, arguments);

  train::TrainerOptions options = trainer_options(config, max_iters, folder, started);
  options.run = carried(config, corpus);
  if (options.live) {
    log.info(session.runtime().description() + fmt::format(", kernels for {}", ops::name_of(session.isa())));
    log.info(fmt::format("Using seed: {}", seed_of(config)));
    log_parameters(log, config, settings.model);
  } else {
    log_startup(log, {config, settings.model, data_at.string(), folder.string(), folder.filename().string()}, session);
  }
  options.peak_flops = config.train.peak_tflops ? *config.train.peak_tflops * 1e12 : lab::fma_peak(session.team());

  train::Engine engine(settings, session.runtime(), session.ops(), session.world());
  Memories memories;
  data::Loader loader(corpus.train, sampler,
                      {.samples = settings.samples, .positions = settings.positions, .microbatches = settings.microbatches});
  const std::int64_t windows = config.train.eval_iters * settings.samples;
  const auto reader = [&](const data::TokenFile& file, const std::string& split) {
    return data::WindowReader(file, data::evaluation_sampler(file, settings.positions, settings.seed, split), settings.samples,
                              settings.positions, windows);
  };
  data::WindowReader train_text = reader(corpus.train, "train");
  data::WindowReader val_text = reader(corpus.val, "val");
  train::TextSampler text(engine.context());
  loader.declare(memories.data);
  train_text.declare(memories.data);
  val_text.declare(memories.data);
  text.declare(memories.sampling, memories.cache);
  Ledger ledger = engine.ledger();
  for (Arena* arena : {&memories.data, &memories.sampling, &memories.cache}) arena->commit(session.runtime().memory(), ledger);
  engine.commit();
  if (!options.live) log.info("memory:\n" + ledger.table());
  const train::RunState state = load_start(config, folder, engine, session.team(), log);

  train::Trainer trainer(std::move(options), {engine, loader, train_text, val_text, corpus.tokenizer ? &text : nullptr,
                                              corpus.tokenizer.get(), session.team(), log});
  const train::TrainingHistory history = trainer.run(state);
  print_summary(history, folder, config);
  return 0;
}

int run(const Arguments& arguments) {
  const double started = now_seconds();
  settings::Sources sources;
  bool dry = false;
  CommandLine line(
      "train",
      "Train a model. Settings are group.key=value words or bundles group=option; `lockstep help config` lists them all.");
  sources.declare(line);
  line.flag("--dry-run", dry, "resolve the settings, print them with the parameter and memory accounting, and stop");
  line.note(
      "examples:\n"
      "  lockstep train data.dir=data/fortunes model.n_layer=4 model.n_head=4 model.n_embd=128 model.block_size=64\n"
      "  lockstep train --config configs/shakespeare-char.toml train.max_iters=500\n"
      "  lockstep train log.dir=runs/first train.init_from=resume\n"
      "Stop with Ctrl-C at any time: the step ends, everything is saved, and the run goes on with train.init_from=resume.");
  if (!line.parse(arguments)) return 0;
  const settings::Resolved resolved = settings::resolve(sources);
  const RunConfig& config = resolved.config;
  if (!dry) {
    if (std::vector<Problem> problems = check_runnable(config); !problems.empty()) throw UserError(std::move(problems));
  }
  Session session(static_cast<int>(config.train.threads.value_or(0)), isa_of(config));
  Log log;
  for (const std::string& warning : resolved.warnings) log.warning(warning);
  if (dry) return dry_run(config, known_vocabulary(config), session);
  return train_run(config, arguments, started, session, log);
}

}  // namespace

train::EngineConfig engine_config(const RunConfig& config, std::int64_t vocabulary) {
  train::EngineConfig out;
  out.model = model_config(config, vocabulary);
  out.decay = decay_rule(config);
  out.adamw = {.beta1 = static_cast<float>(config.optimizer.beta1),
               .beta2 = static_cast<float>(config.optimizer.beta2),
               .eps = static_cast<float>(config.optimizer.eps),
               .weight_decay = static_cast<float>(config.optimizer.weight_decay)};
  out.grad_clip = static_cast<float>(config.optimizer.grad_clip);
  out.samples = config.model.batch_size;
  out.positions = config.model.block_size;
  out.microbatches = static_cast<int>(config.optimizer.gas);
  out.seed = seed_of(config);
  return out;
}

Command train_command() { return {"train", "train a model", run}; }

}  // namespace lockstep::app
