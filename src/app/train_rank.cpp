#include "app/train_rank.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "app/build_info.h"
#include "app/manifest.h"
#include "app/parameter_server/crew.h"
#include "app/settings/run_name.h"
#include "app/start/plan.h"
#include "app/start/run_start.h"
#include "app/start/startup.h"
#include "base/units.h"
#include "comm/agreement.h"
#include "comm/mpi/library.h"
#include "comm/text.h"
#include "data/corpus.h"
#include "data/scattered_loader.h"
#include "data/shards.h"
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

data::Sampler training_sampler(const RunConfig& config, const data::TokenFile& file, const comm::Communicator& group) {
  const int ranks = group.size();
  data::SamplerOptions options;
  options.order = order_of(config);
  options.seed = seed_of(config);
  options.name = data::training_sequence(options.order);
  options.tokens = file.tokens();
  options.positions = config.model.block_size;
  options.global_batch = config.model.batch_size * config.optimizer.gas * ranks;
  if (config.data.shards == "precut") {
    options.shard = group.rank();
    options.shards = ranks;
    options.name += data::shard_name(options.shard, options.shards);
  }
  return data::Sampler(options);
}

/// Whether batches are read by MPI-IO: where there is no MPI job, each rank reads for itself.
bool reads_by_mpi(const RunConfig& config, const Session& session) {
  return config.data.io == "mpi" && session.transport() == Transport::mpi;
}

/// What this rank's batches are read from when that is not the corpus's mapped file: its shard of a text that was cut ahead of
/// time, or the same file by MPI-IO.
std::optional<data::TokenFile> own_text(const RunConfig& config, const io::Path& folder, const data::TokenFile& whole,
                                        const Session& session, const comm::Communicator& group, Log& log) {
  if (config.data.shards == "precut") return data::open_shard(folder, group.rank(), group.size());
  if (reads_by_mpi(config, session)) {
    log.info(fmt::format("Reading {} by MPI-IO", whole.path()));
    data::TokenFile file(whole.path(), whole.format(), comm::open_mpi_file(whole.path()));
    if (whole.masked()) file.set_mask(whole.mask_path(), comm::open_mpi_file(whole.mask_path()));
    return file;
  }
  if (config.data.io == "mpi") log.warning("data.io = mpi: this is no MPI job, so each rank reads for itself, as with files");
  return std::nullopt;
}

/// The ranks that share a reader; null when each reads for itself.
std::unique_ptr<comm::Communicator> reading_group(const RunConfig& config, comm::Communicator& group) {
  if (config.data.io != "readers") return nullptr;
  if (group.size() % config.data.readers != 0) {
    throw UserError(fmt::format("data.readers = {}: {} ranks do not divide by it", config.data.readers, group.size()),
                    "choose a number of readers that divides the ranks");
  }
  const int each = group.size() / static_cast<int>(config.data.readers);
  return group.split(group.rank() / each, group.rank());
}

std::unique_ptr<data::BatchSource> make_loader(const train::EngineConfig& settings, const data::TokenFile& file,
                                               const data::Sampler& sampler, data::Reading reading,
                                               const comm::Communicator& data_group, comm::Communicator* group) {
  const data::LoaderShape shape{.samples = settings.samples,
                                .positions = settings.positions,
                                .microbatches = settings.plan.microbatches,
                                .rank = data_group.rank(),
                                .ranks = data_group.size()};
  if (group != nullptr) return std::make_unique<data::ScatteredLoader>(file, sampler, shape, *group);
  return std::make_unique<data::Loader>(file, sampler, shape, reading);
}

train::LrSchedule schedule_of(const RunConfig& config, std::int64_t max_iters, std::int64_t ranks) {
  train::LrSchedule schedule;
  schedule.kind = train::schedule_from_name(config.optimizer.schedule);
  schedule.decay = config.optimizer.decay_lr;
  schedule.learning_rate = config.optimizer.learning_rate * lr_factor(config, ranks);
  schedule.min_lr = config.optimizer.min_lr * lr_factor(config, ranks);
  schedule.warmup = config.train.warmup_iters;
  schedule.decay_iters = config.optimizer.lr_decay_iters;
  schedule.max_iters = max_iters;
  schedule.wsd_decay = config.optimizer.wsd_decay;
  return schedule;
}

train::TrainerOptions trainer_options(const RunConfig& config, std::int64_t max_iters, const io::Path& folder,
                                      const TrainCall& call, Session& session, const layout::ParallelPlan& plan) {
  train::TrainerOptions options;
  options.max_iters = max_iters;
  options.log_interval = config.train.log_interval;
  options.eval_interval = config.train.eval_interval;
  options.checkpoint_interval = checkpoint_interval(config);
  options.eval_only = config.train.eval_only;
  options.schedule = schedule_of(config, max_iters, plan.dp);
  options.sample = {.tokens = config.sample.tokens,
                    .temperature = config.sample.temperature,
                    .top_k = config.sample.top_k.value_or(0),
                    .top_p = config.sample.top_p,
                    .seed = seed_of(config)};
  options.prompt = config.sample.prompt;
  options.dump_step = config.train.dump_step;
  options.folder = folder;
  options.tensorboard = config.log.tensorboard;
  options.switches = {config.train.kill_file, config.train.save_file, config.train.max_minutes};
  options.started = call.started;
  options.watches = session.leads_process();
  options.live = call.live;
  return options;
}

/// A resumed run keeps the samples of a step: on another number of ranks, optimizer.gas changes.
void keep_global_batch(RunConfig& config, const checkpoint::Choice& choice, std::int64_t ranks, Log& log) {
  const std::int64_t kept = choice.manifest.global_batch;
  const std::int64_t each = config.model.batch_size * ranks;
  if (kept == each * config.optimizer.gas || config.train.global_batch == "new") return;
  if (kept % each != 0) {
    std::vector<std::int64_t> possible;
    for (std::int64_t n = 1; n <= kept / config.model.batch_size; ++n) {
      if (kept % (config.model.batch_size * n) == 0) possible.push_back(n + servers_of(config));
    }
    throw UserError(
        fmt::format("the checkpoint's global batch of {} samples does not divide by {} ranks x model.batch_size = {}", kept,
                    ranks, config.model.batch_size),
        fmt::format("resume with --ranks {}, or let it change with train.global_batch=new", fmt::join(possible, ", ")));
  }
  config.optimizer.gas = kept / each;
  log.info(fmt::format("optimizer.gas = {} keeps the checkpoint's global batch of {} samples on {} rank{}", config.optimizer.gas,
                       kept, ranks, ranks == 1 ? "" : "s"));
}

/// The run's name, the same on all ranks: the settings', on a resume the one that it had, else a new one. Collective.
std::string name_of_run(const RunConfig& config, const Start& start, Session& session) {
  const bool resumed = start.checkpoint && config.train.init_from == "resume" && start.checkpoint->manifest.run.is_object();
  const Json* before = resumed ? start.checkpoint->manifest.run.find("name") : nullptr;
  if (config.log.name) return *config.log.name;
  if (before != nullptr && before->is_string()) return before->string();
  return comm::lead_text(session.world(), make_run_name(seed_of(config)));
}

/// What a checkpoint carries so that it can be used without its run: settings and tokenizer.
Json carried(const RunConfig& config, const std::string& name, const data::Corpus& corpus) {
  Json run;
  run.set("name", name);
  run.set("config", to_json(config));
  run.set("data_folder", std::filesystem::absolute(data_folder(config)).string());
  if (corpus.tokenizer) run.set("tokenizer", corpus.tokenizer->describe());
  return run;
}

void write_run_files(const RunConfig& config, const std::string& name, const io::Path& folder, const Arguments& arguments) {
  io::make_folders(folder);
  std::vector<std::string> command_line{"lockstep", "train"};
  command_line.insert(command_line.end(), arguments.begin(), arguments.end());
  io::replace_file(folder / "config.toml", to_toml(config));
  RunConfig named = config;
  named.log.name = name;
  io::replace_file(folder / "config.json", to_json(named).dump(4) + "\n");
  io::replace_file(folder / "environment.json", environment_manifest(command_line).dump(2) + "\n");
}

// The words before the settings of a run on the same ranks.
std::string same_ranks(const Session& session) {
  const int ranks = session.world().size();
  switch (session.transport()) {
    case Transport::self:
      return "lockstep train";
    case Transport::thread:
      return fmt::format("lockstep train --ranks {}", ranks);
    case Transport::mpi:
      return fmt::format("lockstep launch -n {} -- train", ranks);
  }
  return {};
}

void print_summary(const train::TrainingHistory& history, const io::Path& folder, const RunConfig& config, const Session& session,
                   std::FILE* out) {
  if (!history.train.x.empty()) {
    fmt::print(out, "\n{}\n", plot("loss", "step", {history.train, history.validation}));
  }
  if (!history.sample.empty()) fmt::print(out, "A sample:\n\n{}\n\n", history.sample);
  if (history.tokens_per_second > 0) fmt::print(out, "Speed:       {} tokens/s (median)\n", format_si(history.tokens_per_second));
  if (!history.validation.y.empty())
    fmt::print(out, "Validation:  loss {:.4f} after {} steps\n", history.validation.y.back(), history.steps);
  if (history.staleness) {
    fmt::print(out, "Staleness:   mean {:.2f}, most {} updates between pull and update\n", history.staleness->mean,
               history.staleness->greatest);
  }
  fmt::print(out, "Run folder:  {}\n", folder.string());
  if (history.stopped) {
    fmt::print(out,
               "Stopped:     {}; everything is saved. Go on with:\n             {} --config {}/config.toml log.dir={} "
               "train.init_from=resume\n",
               *history.stopped, same_ranks(session), folder.string(), folder.string());
  } else {
    fmt::print(out, "Try next:    lockstep generate --model {} --prompt \"{}\"\n", folder.string(), config.sample.prompt);
  }
}

/// What rank 0 says and writes before the first step.
void announce(const RunConfig& config, const TrainCall& call, const train::EngineConfig& settings, const io::Path& data_at,
              const io::Path& folder, const std::string& name, Session& session, Log& log) {
  if (session.lead()) write_run_files(config, name, folder, call.arguments);
  if (call.live) {
    log.info(session.description());
    log.info(fmt::format("Run: {}", name));
    log.info(fmt::format("Using seed: {}", seed_of(config)));
    log_parameters(log, config, settings.model);
  } else {
    log_startup(log, {config, settings.model, data_at.string(), folder.string(), name}, session);
  }
}

}  // namespace

train::TrainingHistory train_rank(RunConfig config, const TrainCall& call, Session& session) {
  Log log(call.out, session.lead() || logs_from_all_ranks(config) ? Level::info : Level::critical);
  comm::demand_agreement(session.world(), "programs", fmt::format("lockstep {} by {} {}", kVersion, kCompiler, kFlags));
  comm::demand_agreement(session.world(), "settings", to_toml(config));
  const Crew crew(config, session.world());
  const io::Path folder = run_folder(config, call.name);
  const Start start = choose_start(config, folder, session.world(), log);
  if (start.checkpoint && config.train.init_from == "resume")
    keep_global_batch(config, *start.checkpoint, workers_of(config, session.world().size()), log);

  const std::string name = name_of_run(config, start, session);

  const io::Path data_at = data_folder(config);
  const data::Corpus corpus = data::open_corpus(data_at, log);
  train::EngineConfig settings = engine_config(config, corpus.vocabulary());
  if (corpus.tokenizer && corpus.vocabulary() > settings.model.vocabulary) {
    throw UserError(fmt::format("{} has tokens of a vocabulary of {}, the model one of {}", data_at.string(), corpus.vocabulary(),
                                settings.model.vocabulary),
                    "prepare the text with the tokenizer that the model was trained with");
  }
  if (crew.serves()) {
    announce(config, call, settings, data_at, folder, name, session, log);
    crew.serve(settings, session, call.started);
    return {};
  }
  settings.plan = plan_of(config, settings.model, crew.group());
  const parallel::Groups groups(crew.group(), layout::Mesh(settings.plan));
  comm::Communicator& data_group = groups.data();
  const std::optional<data::TokenFile> own = own_text(config, data_at, corpus.train, session, data_group, log);
  const data::TokenFile& text_file = own ? *own : corpus.train;
  const data::Sampler sampler = training_sampler(config, text_file, data_group);
  std::int64_t max_iters =
      config.train.max_epochs ? *config.train.max_epochs * sampler.steps_per_epoch() : config.train.max_iters;
  // Shards may differ by a window: the shortest epoch ends it.
  groups.all().host().all_reduce(view(std::span(&max_iters, 1), Shape{1}), comm::Reduction::min).wait();
  announce(config, call, settings, data_at, folder, name, session, log);
  train::TrainerOptions options = trainer_options(config, max_iters, folder, call, session, settings.plan);
  options.name = name;
  options.run = carried(config, options.name, corpus);
  options.peak_flops = config.train.peak_tflops ? *config.train.peak_tflops * 1e12 : lab::fma_peak(session.team());

  train::Engine engine(settings, session.runtime(), session.ops(), groups, crew.updater());
  Memories memories;
  const std::unique_ptr<comm::Communicator> group = reading_group(config, data_group);
  // One thread of a process calls MPI.
  const data::Reading reading = reads_by_mpi(config, session) ? data::Reading::when_asked : data::Reading::ahead;
  const std::unique_ptr<data::BatchSource> loader = make_loader(settings, text_file, sampler, reading, data_group, group.get());
  const std::int64_t windows = config.train.eval_iters * settings.samples;
  const auto reader = [&](const data::TokenFile& file, const std::string& split) {
    return data::WindowReader(file, data::evaluation_sampler(file, settings.positions, settings.seed, split), settings.samples,
                              settings.positions, windows);
  };
  data::WindowReader train_text = reader(corpus.train, "train");
  data::WindowReader val_text = reader(corpus.val, "val");
  const bool writes_text = corpus.tokenizer && session.lead();
  train::TextSampler text(engine.context());
  loader->declare(memories.data);
  train_text.declare(memories.data);
  val_text.declare(memories.data);
  text.declare(memories.sampling, memories.cache);
  Ledger ledger = engine.ledger();
  memories.data.commit(session.runtime().memory(Space::pinned), ledger);
  for (Arena* arena : {&memories.sampling, &memories.cache}) arena->commit(session.runtime(), ledger);
  engine.commit();
  if (!options.live) log.info(fmt::format("memory{}:\n", session.world().size() > 1 ? " of one rank" : "") + ledger.table());
  const train::RunState state = load_start(config, start, engine, session, log);

  train::Trainer trainer(std::move(options), {engine, *loader, train_text, val_text, writes_text ? &text : nullptr,
                                              corpus.tokenizer.get(), session.team(), log});
  train::TrainingHistory history = trainer.run(state);
  engine.control().leave();
  if (session.lead()) print_summary(history, folder, config, session, call.out);
  return history;
}

train::EngineConfig engine_config(const RunConfig& config, std::int64_t vocabulary) {
  train::EngineConfig out;
  out.model = model_config(config, vocabulary);
  out.decay = decay_rule(config);
  out.weights = {.type = dtype_of(config), .master = config.optimizer.master_weights};
  out.optimizer = {.name = config.optimizer.name,
                   .beta1 = static_cast<float>(config.optimizer.beta1),
                   .beta2 = static_cast<float>(config.optimizer.beta2),
                   .eps = static_cast<float>(config.optimizer.eps),
                   .momentum = static_cast<float>(config.optimizer.momentum),
                   .weight_decay = static_cast<float>(config.optimizer.weight_decay)};
  out.grad_clip = static_cast<float>(config.optimizer.grad_clip);
  out.samples = config.model.batch_size;
  out.positions = config.model.block_size;
  out.plan.microbatches = static_cast<int>(config.optimizer.gas);
  out.seed = seed_of(config);
  out.gradients = {.bucket_bytes = config.parallel.bucket_bytes, .overlap = config.parallel.overlap};
  return out;
}

}  // namespace lockstep::app
