#include "app/start/run_start.h"

#include <fmt/format.h>

#include <memory>

#include "app/cli/commit.h"
#include "app/settings/idle.h"
#include "app/settings/keys.h"
#include "app/settings/run_layout.h"
#include "app/settings/source_shape.h"
#include "app/start/copies.h"
#include "app/start/same_run.h"
#include "arch/config_json.h"
#include "base/shell.h"
#include "checkpoint/huggingface/adapter.h"
#include "checkpoint/huggingface/weights.h"
#include "checkpoint/reader.h"
#include "comm/agreement.h"
#include "data/fingerprint.h"
#include "data/token_description.h"
#include "ops/cpu/options.h"

namespace lockstep::app {
namespace {

/// Whether the start is read or drawn by rank 0 alone, which sends it to the other ranks.
bool sends_start(const RunConfig& config, const Start& start) {
  const bool drawn = !start.published && !start.checkpoint;
  return servers_of(config) > 0 || config.parallel.broadcast_start.value_or(drawn && zero_level(config) == 0);
}

/// The weights of a model without adapters. Those of the run start as adapter.init_from has them, or as they are drawn.
void load_weights(const RunConfig& config, const checkpoint::WeightSource& model, train::Engine& engine,
                  comm::Communicator& ranks, Session& session, Log& log) {
  if (!engine.config().model.adapter.used()) return train::load_weights(model, engine, ranks, session.team());
  engine.initialise();
  std::optional<checkpoint::huggingface::AdapterFolder> adapter;
  comm::together(ranks, [&] {
    if (config.adapter.init_from) adapter.emplace(*config.adapter.init_from, engine.config().model);
  });
  for (const std::string& warning : adapter ? adapter->warnings() : std::vector<std::string>{}) log.warning(warning);
  const checkpoint::huggingface::AdaptedSource source(model, adapter ? &*adapter : nullptr);
  train::load_weights(source, engine, ranks, session.team());
}

/// Fills the weights on all of `ranks`, and on a resume everything. `ranks` are all of the engine's, each of which reads its
/// part. Or they are one replica, whose ranks each read all that they hold.
void read_start(const RunConfig& config, const Start& start, train::Engine& engine, comm::Communicator& ranks, Session& session,
                Log& log) {
  if (start.published) {
    std::optional<checkpoint::huggingface::Weights> weights;
    comm::together(ranks, [&] { weights.emplace(config.train.init_from.text); });
    for (const std::string& warning : weights->warnings()) log.warning(warning);
    return load_weights(config, *weights, engine, ranks, session, log);
  }
  const std::unique_ptr<checkpoint::Reader> reader = checkpoint::open_together(ranks, start.checkpoint->folder);
  if (config.train.init_from.kind == InitFrom::Kind::resume) return train::load_run(*reader, engine, ranks, session.team());
  if (arch::model_from_json(reader->manifest().model, reader->folder().string()).adapter.used())
    return train::load_weights(*reader, engine, ranks, session.team());
  load_weights(config, *reader, engine, ranks, session, log);
}

}  // namespace

Start choose_start(const RunConfig& config, const io::Path& run, Session& session, Log& log) {
  const InitFrom& from = config.train.init_from;
  comm::Communicator& world = session.world();
  if (from.kind != InitFrom::Kind::resume && !config.train.eval_only) clear_copies(run, world);
  if (from.kind == InitFrom::Kind::scratch) return {};
  if (settings::starts_from_published(config)) return {.published = true, .resumes = false, .checkpoint = {}};
  const bool resume = from.kind == InitFrom::Kind::resume;
  checkpoint::Choice choice = checkpoint::choose_checkpoint(world, resume ? run : io::Path(from.text), resume ? "last" : "best");
  for (const std::string& reason : choice.passed_over) log.warning(reason);
  if (resume && !config.train.eval_only && bring_copies(run, choice, session, log))
    choice = checkpoint::choose_checkpoint(world, run, "last");
  return {.published = false, .resumes = resume, .checkpoint = std::move(choice)};
}

void settle_bf16_order(RunConfig& config, const Start& start, const Session& session) {
  ops::Bf16Order order = session.bf16_order();
  if (config.numerics.bf16 == ops::Bf16Order::automatic && start.resumes && !plain_kernels_of(config).products)
    order = stored_bf16_order(start.checkpoint->manifest).value_or(order);
  config.numerics.bf16 = order;
}

void demand_description(const Start& start, const io::Path& text, std::int64_t vocabulary) {
  if (!start.resumes) return;
  const checkpoint::Choice& choice = *start.checkpoint;
  const bool described = choice.manifest.run.is_object() && choice.manifest.run.find("tokenizer") != nullptr;
  if (!described || arch::model_from_json(choice.manifest.model, choice.folder.string()).vocabulary == vocabulary) return;
  throw UserError(
      fmt::format("{} has no {}, and the text that the run was trained on had one", text.string(), data::description_file),
      fmt::format("put it back, or prepare the text again: {}", own_command({"prepare", "TEXT", "--out", text.string()})));
}

Json identify_run(const RunConfig& config, const Start& start, std::int64_t vocabulary, std::vector<Problem> problems,
                  Session& session, Log& log) {
  const std::int64_t groups = replicas_of(config, session.world().size());
  RunIdentity now{.config = config,
                  .vocabulary = vocabulary,
                  .global_batch = config.model.batch_size * config.optimizer.gas * groups,
                  .isa = std::string(ops::name_of(session.isa())),
                  .program = program_version(),
                  .data = {}};
  Json json;
  comm::together(session.world(), [&] {
    if (!session.lead()) return;
    now.data = data::fingerprint(data_folder(config), log);
    Comparison compared;
    const checkpoint::Manifest* manifest = start.resumes ? &start.checkpoint->manifest : nullptr;
    if (manifest != nullptr) compared = compare_runs(now, *manifest, start.checkpoint->folder.string());
    problems.insert(problems.end(), compared.problems.begin(), compared.problems.end());
    if (!problems.empty()) throw UserError(problems);
    for (const std::string& what : compared.unknown) {
      log.warning(fmt::format("{} does not say {}, as an older version wrote it: whether it is the same now is not checked",
                              start.checkpoint->folder.string(), what));
    }
    if (!compared.other_program.empty())
      log.info(fmt::format("The checkpoint was written by {}; this is {}", compared.other_program, now.program));
    const auto idle = [&](const Change& change) {
      const settings::Key* key = settings::find_key(change.setting);
      return key != nullptr && !settings::idle_reason(*key, {config, session.world().size()}).empty();
    };
    for (const Change& change : compared.changes) {
      if (idle(change)) continue;
      log.warning(fmt::format("{} = {} from step {} on, it was {}: this changes what the run learns", change.setting,
                              settings::shown(change.is), change.step, settings::shown(change.was)));
    }
    json = identity_json(now, compared.changes, manifest);
  });
  return json;
}

train::RunState load_start(const RunConfig& config, const Start& start, train::Engine& engine, Session& session, Log& log) {
  train::RunState state;
  const bool resume = config.train.init_from.kind == InitFrom::Kind::resume, sends = sends_start(config, start);
  if (start.published) log.info(fmt::format("Starting from the weights of {}", config.train.init_from.text));
  if (start.checkpoint) {
    const checkpoint::Manifest& manifest = start.checkpoint->manifest;
    log.info(fmt::format("{} {}", resume ? "Resuming from" : "Starting from the weights of", start.checkpoint->folder.string()));
    if (resume) state = train::state_of(manifest);
    if (manifest.dtype != dtype_of(config)) {
      log.info(
          fmt::format("Its weights were trained in {}; this run computes in {}", spelt(manifest.dtype), spelt(dtype_of(config))));
    }
  }
  if (!start.published && !start.checkpoint) {
    engine.initialise();
  } else if (!sends) {
    read_start(config, start, engine, engine.groups().all(), session, log);
  } else if (const layout::Coordinates& at = engine.groups().at(); at.dp == 0 && at.cp == 0) {
    read_start(config, start, engine, engine.groups().model(), session, log);  // the replicas that send
  }
  sends ? engine.broadcast_state(state.step) : engine.check_state();
  return state;
}

}  // namespace lockstep::app
