#include <fmt/format.h>

#include <cstdio>

#include "app/commands.h"
#include "app/parameter_server/roles.h"
#include "app/session.h"
#include "app/settings/checks.h"
#include "app/start/cut_state.h"
#include "app/start/expected_memory.h"
#include "app/start/memory_limit.h"
#include "app/start/plan.h"
#include "app/start/run_folder.h"
#include "app/start/startup.h"
#include "app/start/training_data.h"
#include "app/train_rank.h"
#include "app/train_words.h"
#include "base/terminal.h"
#include "base/timer.h"
#include "base/units.h"
#include "comm/mpi/mpi_job.h"
#include "comm/text.h"
#include "data/token_description.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

/// The vocabulary of a text that may not be there yet.
std::int64_t known_vocabulary(const RunConfig& config) {
  const io::Path folder = data_folder(config);
  if (io::is_folder(folder)) {
    if (const auto description = data::read_description(folder)) return description->format.vocabulary;
  }
  constexpr std::int64_t tiny_shakespeare = 65;
  return config.data.dataset == "shakespeare_char" && !config.data.dir ? tiny_shakespeare : data::TokenFormat{}.vocabulary;
}

void print_memory(const std::string& owner, const std::string& tables) { fmt::print("\nMemory of {}\n{}", owner, tables); }

std::string tables(const Ledger& ledger) { return ledger.table() + "\n" + ledger.layer_table() + "\n" + ledger.tensor_table(); }

void dry_run_of_server(const RunConfig& config, const train::EngineConfig& settings, const Roles& roles, Session& session) {
  const Ledger ledger = roles.server_memory(settings, session);
  if (roles.group().rank() == 0) comm::send_text(session.world(), tables(ledger), 0);
  demand_memory({config, settings, {}, session.runtime().device(), ledger, true}, session.world(), io::free_memory());
}

// Rank 0 prints; the first server tells it of its memory. Collective.
void dry_run(const RunConfig& config, std::int64_t vocabulary, Session& session) {
  const Roles roles(config, session.world());
  train::EngineConfig settings = engine_config(config, vocabulary);
  settings.servers = roles.servers();
  if (config.data.documents) settings.document_end = 0;  // whichever it is
  if (roles.serves()) return dry_run_of_server(config, settings, roles, session);
  settings.plan = plan_of(config, settings.model, roles.group(), session.runtime().device());
  const parallel::Groups groups(roles.group(), layout::Mesh(settings.plan));
  const Ledger ledger = expected_memory({config, settings, session, groups, roles.updater()});
  if (session.lead()) {
    Log log;
    fmt::print("{}\n", to_json(config, vocabulary).dump(4));
    log_parameters(log, config, settings.model);
    log.info(fmt::format("Tokens per iteration: {}", format_count(tokens_per_iteration(config, settings.plan.dp))));
    log_layout(log, settings.plan);
    print_memory(settings.servers ? "rank 0, a worker that keeps optimizer slots for checkpoints" : "one rank", tables(ledger));
    for (const std::string& note : notes_on_cut_state(settings)) fmt::print("{}\n", note);
    for (const std::string& note : notes_on_offload(config, settings)) fmt::print("{}\n", note);
    for (const std::string& note : notes_on_tiles(config, settings)) fmt::print("{}\n", note);
    if (settings.servers) print_memory("the first server", comm::receive_text(session.world(), roles.group().size()));
  }
  const std::optional<Problem> lack =
      demand_memory({config, settings, groups.at(), session.runtime().device(), ledger}, session.world(), io::free_memory());
  if (lack && session.lead()) fmt::print("\nThis run would be refused here: {}\n  -> {}\n", lack->message, lack->remedy);
}

int run(const Arguments& arguments) {
  const double started = now_seconds();
  const std::optional<TrainWords> words = read_train_words(arguments);
  if (!words) return 0;
  const auto job = comm::find_mpi_job();
  const std::int64_t started_with = job ? job->ranks : words->ranks;
  settings::Sources sources = words->sources;
  sources.ranks = started_with;
  const settings::Resolved resolved = settings::resolve(sources, [&](const RunConfig& config) {
    std::vector<Problem> problems = check_roles(config, started_with);
    for (Problem& problem : check_layout(config, started_with)) problems.push_back(std::move(problem));
    return problems;
  });
  const RunConfig& config = resolved.config;
  if (!words->dry_run) {
    std::vector<Problem> problems = check_runnable(config);
    for (Problem& problem : check_run_files(config)) problems.push_back(std::move(problem));
    if (!problems.empty()) throw UserError(std::move(problems));
  }
  RankOptions start = rank_options(config, words->ranks);
  Log log;
  const bool as_the_book = config.log.style == train::LogStyle::rasbt && !words->dry_run;
  if (is_first_process()) {
    for (const std::string& warning : resolved.warnings) log.warning(warning);
    for (const std::string& note : resolved.notes) log.info(note);
    if (const std::string idle = resolved.idle_text(); !idle.empty() && !as_the_book) log.info(idle);
  }
  if (words->dry_run) {
    const std::int64_t vocabulary = known_vocabulary(config);
    run_on_ranks(start, [&](Session& session) { dry_run(config, vocabulary, session); });
    return 0;
  }
  start.prepare = [&] { prepare_data(config, log); };
  const std::string name = run_name_from_time();
  bool diverged = false;
  run_on_ranks(start, [&](Session& session) {
    // mpiexec gives every rank a terminal of its own, which no person reads.
    const bool live =
        is_terminal(stdout) && session.transport() != Transport::mpi && config.log.style == train::LogStyle::wordplay;
    // The clocks of other processes may say something else.
    const TrainCall call{arguments, started, comm::lead_text(session.world(), name),
                         live,      stdout,  as_the_book ? resolved.idle_text() : ""};
    const train::TrainingHistory history = train_rank(config, call, session);
    if (!history.diverged || !session.leads_process()) return;
    diverged = true;
    if (session.lead()) say(stderr, fmt::format("lockstep: {}\n  -> {}\n", history.diverged->message, history.diverged->remedy));
  });
  return diverged ? kDiverged : 0;
}

}  // namespace

Command train_command() { return {"train", "train a model", run, true}; }

}  // namespace lockstep::app
