#include "app/train/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <optional>

#include "app/cli/commands.h"
#include "app/cli/process.h"
#include "app/folder/run_folder.h"
#include "app/folder/run_name.h"
#include "app/settings/checks.h"
#include "app/settings/run_layout.h"
#include "app/start/assemble.h"
#include "app/start/cut_state.h"
#include "app/start/memory_limit.h"
#include "app/start/plan.h"
#include "app/start/roles.h"
#include "app/start/run_text.h"
#include "app/start/session.h"
#include "app/start/startup.h"
#include "app/start/training_data.h"
#include "app/train/chosen_run.h"
#include "app/train/train_rank.h"
#include "app/train/train_words.h"
#include "app/watch/watch_server.h"
#include "base/terminal.h"
#include "base/text/visible.h"
#include "base/timer.h"
#include "base/units.h"
#include "comm/mpi/mpi_job.h"
#include "comm/text.h"
#include "io/file.h"
#include "train/memory/rank_memory.h"
#include "train/server/server_rank_memory.h"

namespace lockstep::app {
namespace {

void print_memory(const std::string& owner, const std::string& tables) { fmt::print("\nMemory of {}\n{}", owner, tables); }

void print_refusal(const Problem& problem) {
  fmt::print("\nThis run would be refused here: {}\n  -> {}\n", visible(problem.message), visible(problem.remedy));
}

std::string tables(const Ledger& ledger) { return ledger.table() + "\n" + ledger.layer_table() + "\n" + ledger.tensor_table(); }

void dry_run_of_server(const RunConfig& config, const AssembledRank& rank, const Roles& roles, Session& session) {
  if (roles.group().rank() == 0) comm::send_text(session.world(), tables(rank.memory), 0);
  demand_memory({config, rank.engine, {}, session.runtime().device(), rank.memory, true}, session.world(), io::free_memory());
}

void print_run(const RunConfig& config, std::int64_t vocabulary, const train::EngineConfig& settings, const Ledger& memory) {
  Log log;
  fmt::print("{}\n", to_json(config, vocabulary).dump(4));
  log_parameters(log, config, settings.model);
  log.info(fmt::format("Tokens per iteration: {}", format_count(tokens_per_iteration(config, settings.plan.dp))));
  log_layout(log, settings.plan);
  print_memory(settings.servers ? "rank 0, a worker that keeps optimizer slots for checkpoints" : "one rank", tables(memory));
  for (const std::string& note : notes_on_cut_state(settings)) fmt::print("{}\n", note);
  for (const std::string& note : notes_on_offload(config, settings)) fmt::print("{}\n", note);
  for (const std::string& note : notes_on_tiles(config, settings)) fmt::print("{}\n", note);
}

// Rank 0 prints; the first server tells it of its memory. Collective.
void dry_run(const RunConfig& config, Session& session) {
  const std::int64_t vocabulary = known_vocabulary(config);
  const Roles roles(config, session.world());
  const AssembledRank rank = assemble(config, unread_text(config, vocabulary), roles, session, session.ops());
  const train::EngineConfig& settings = rank.engine;
  if (roles.serves()) return dry_run_of_server(config, rank, roles, session);
  if (session.lead()) {
    print_run(config, vocabulary, settings, rank.memory);
    if (settings.servers) print_memory("the first server", comm::receive_text(session.world(), roles.group().size()));
  }
  const layout::Coordinates at = layout::Mesh(settings.plan).coordinates(roles.group().rank());
  const std::optional<Problem> lack =
      demand_memory({config, settings, at, session.runtime().device(), rank.memory}, session.world(), io::free_memory());
  if (lack && session.lead()) print_refusal(*lack);
}

/// More ranks than that are no threads of a laptop: their plan is shown, and none is started.
constexpr std::int64_t most_started = 64;

// The same for so many ranks that other machines have.
void dry_run_elsewhere(const settings::Resolved& resolved, std::int64_t ranks) {
  if (resolved.chosen) {
    throw UserError(
        fmt::format("--ranks {}: a model is chosen by what ranks measure, and a dry run starts at most {}", ranks, most_started),
        "model=gpt2, or a recipe (--config FILE)");
  }
  const RunConfig& config = resolved.config;
  const std::int64_t vocabulary = known_vocabulary(config), workers = workers_of(config, ranks);
  const auto per_host = static_cast<int>(given_ranks_per_host(config).value_or(static_cast<int>(workers)));
  std::optional<train::ParameterServers> servers;
  if (workers < ranks) servers = {.mode = server_mode(config), .count = static_cast<int>(ranks - workers)};
  const train::EngineConfig settings = assemble(
      config, unread_text(config, vocabulary),
      plan_of(config, model_config(config, vocabulary), workers, per_host, config.train.device != DeviceKind::cuda), servers);
  print_run(config, vocabulary, settings, train::RankMemory(settings, {}).ledger(0));
  if (servers) {
    print_memory("the first server", tables(train::ServerRankMemory(settings, static_cast<int>(workers), 0).ledger(0)));
  }
  fmt::print(
      "\nNone of the {} ranks was started: the tables are those of rank 0, without batches and text samples. No host was asked "
      "for its memory.\n",
      format_count(ranks));
}

/// The settings that the words make, checked for `ranks` ranks.
settings::Resolved resolve(const TrainWords& words, std::int64_t ranks) {
  settings::Sources sources = words.sources;
  sources.ranks = ranks;
  return settings::resolve(sources, [&](const RunConfig& config) { return check_ranks(config, ranks); });
}

/// The ranks of a dry run: those of --ranks, else those that the layout's degrees make.
std::int64_t ranks_of_dry_run(const TrainWords& words) {
  if (words.ranks != 1) return words.ranks;
  try {
    const RunConfig config = settings::resolve(words.sources).config;
    return config.parallel.dp.value_or(1) * ranks_of_model(config) + servers_of(config);
  } catch (const UserError&) {
    return 1;  // what is wrong is told when the settings are read for these ranks
  }
}

/// The settings of a run, with what is chosen for it. Collective.
RunConfig chosen_config(const TrainWords& words, const settings::Resolved& resolved, Session& session) {
  if (!resolved.chosen) return resolved.config;
  const double minutes = words.minutes.value_or(resolved.config.train.max_minutes.value_or(3));
  const ChosenRun chosen = choose_together(resolved.config, minutes, session);
  if (session.lead()) Log(stdout, Level::info, log_form(resolved.config)).info(chosen.line);
  TrainWords now = words;
  now.sources.choice = chosen.settings;
  return resolve(now, session.world().size()).config;
}

std::vector<Problem> check_minutes(const TrainWords& words, bool chosen) {
  if (!words.minutes) return {};
  if (!chosen) {
    return {{fmt::format("--minutes {}: model and length are chosen only where no recipe, no model.* and no train.max_iters says "
                         "them",
                         *words.minutes),
             fmt::format("leave those out; or train.max_minutes={}, which ends any run by the clock", *words.minutes)}};
  }
  if (*words.minutes > 0 && *words.minutes <= 1e5) return {};
  return {{fmt::format("--minutes {}: must be above 0 and at most 100000", *words.minutes), "--minutes 3"}};
}

/// What this machine and its files lack for the run.
std::vector<Problem> lacks(const RunConfig& config) {
  std::vector<Problem> problems = check_runnable(config);
  for (Problem& problem : check_run_files(config)) problems.push_back(std::move(problem));
  return problems;
}

/// What `asked` ranks would refuse when they start, which a dry run tells in their stead.
std::vector<Problem> refusals_at_start(const RunConfig& config, std::int64_t asked) {
  std::vector<Problem> problems = check_ranks(config, asked);
  std::ranges::move(check_prepared_text(config), std::back_inserter(problems));
  return problems;
}

/// What one process says of the settings for all; `idle`: what changes nothing too.
void tell(const settings::Resolved& resolved, bool idle, Log& log) {
  if (!is_first_process()) return;
  for (const std::string& warning : resolved.warnings) log.warning(warning);
  for (const std::string& note : resolved.notes) log.info(note);
  if (const std::string text = resolved.idle_text(); idle && !text.empty()) log.info(text);
}

/// Who sends INT or TERM ends the run, and a script must see that it is not whole. Schedulers send USR1 and HUP to have it saved.
int status_of(const train::TrainingHistory& history) {
  if (history.diverged) return kDiverged;
  if (history.cause == train::StopCause::sigint) return kInterrupted;
  return history.cause == train::StopCause::sigterm ? kTerminated : 0;
}

/// The exit status.
int train_on_ranks(const TrainWords& words, const settings::Resolved& resolved, const TrainCall& called,
                   const RankOptions& start) {
  int status = 0;
  run_on_ranks(start, [&](Session& session) {
    const RunConfig config = chosen_config(words, resolved, session);
    TrainCall call = called;
    // mpiexec gives every rank a terminal of its own, which no person reads.
    call.live = is_terminal(stdout) && session.transport() != Transport::mpi && config.log.style == train::LogStyle::plain;
    call.name = comm::lead_text(session.world(), called.name);  // the clocks of other processes may say something else
    const train::TrainingHistory history = train_rank(config, call, session);
    if (!session.leads_process()) return;
    status = status_of(history);
    if (session.lead() && history.diverged)
      say(stderr,
          Paint(stderr).error(fmt::format("lockstep: {}\n  -> {}\n", history.diverged->message, history.diverged->remedy)));
  });
  return status;
}

}  // namespace

int train(const Arguments& arguments, const decltype(RankOptions::around)& around) {
  const double started = now_seconds();
  std::optional<TrainWords> words = read_train_words(arguments);
  if (!words) return 0;
  words->sources.choice = least_choice();
  const auto job = comm::find_mpi_job();
  const std::int64_t asked = job ? job->ranks : words->ranks;
  if (words->dry_run && !job) words->ranks = ranks_of_dry_run(*words);
  const settings::Resolved resolved = resolve(*words, job ? job->ranks : words->ranks);
  const RunConfig& config = resolved.config;
  if (std::vector<Problem> problems = check_minutes(*words, resolved.chosen); !problems.empty())
    throw UserError(std::move(problems));
  std::vector<Problem> lacking = lacks(config);
  if (words->dry_run) std::ranges::move(refusals_at_start(config, asked), std::back_inserter(lacking));
  if (!words->dry_run && !lacking.empty()) throw UserError(std::move(lacking));
  RankOptions start = rank_options(config, words->ranks);
  start.around = around;
  Log log(stdout, Level::info, log_form(config));
  const bool as_the_book = config.log.style == train::LogStyle::rasbt && !words->dry_run;
  tell(resolved, !as_the_book, log);
  if (words->dry_run) {
    if (!job && words->ranks > most_started)
      dry_run_elsewhere(resolved, words->ranks);
    else
      run_on_ranks(start, [&](Session& session) { dry_run(chosen_config(*words, resolved, session), session); });
    if (is_first_process()) std::for_each(lacking.begin(), lacking.end(), print_refusal);
    return 0;
  }
  const TrainCall call{
      .arguments = arguments, .started = started, .name = run_name_from_time(), .idle = as_the_book ? resolved.idle_text() : ""};
  std::optional<WatchServer> watch;  // of rank 0's process; it ends after the run
  start.prepare = [&] {
    if (words->watch) {
      watch.emplace(std::vector{run_folder(config, call.name)}, "127.0.0.1", static_cast<int>(*words->watch));
      log.info("Watch:    " + watch->url());
    }
    prepare_data(config, log);
  };
  return train_on_ranks(*words, resolved, call, start);
}

Command train_command() {
  return {"train", "train a model", [](const Arguments& arguments) { return train(arguments); }, true};
}

}  // namespace lockstep::app
