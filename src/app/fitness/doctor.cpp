// `lockstep doctor`: is this machine or cluster fit for training?

#include "app/fitness/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "app/cli/commands.h"
#include "app/fitness/test_dist.h"
#include "app/folder/answer_line.h"
#include "app/gpu/examine.h"
#include "app/start/dist_info.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/text/visible.h"
#include "comm/text.h"
#include "io/file.h"
#include "lab/bench_gemm.h"
#include "lab/collectives/bench_collectives.h"
#include "lab/collectives/collective_trial.h"
#include "lab/machine.h"
#include "ops/cpu/options.h"

namespace lockstep::app {
namespace {

constexpr double loss_bound = 600;

// Not rank 0, and not one for all: broadcast and reduce with root 2, scatter from rank 1.
int root_of(comm::Collective op, int ranks) { return std::min(op == comm::Collective::scatter ? 1 : 2, ranks - 1); }

std::string_view meaning_of(comm::Collective op) {
  switch (op) {
    case comm::Collective::all_reduce:
      return "every rank gets the sum";
    case comm::Collective::reduce:
      return "the root gets the sum";
    case comm::Collective::broadcast:
      return "every rank gets what the root has";
    case comm::Collective::all_gather:
      return "every rank gets every part";
    case comm::Collective::reduce_scatter:
      return "every rank gets its part of the sum";
    case comm::Collective::gather:
      return "the root gets every part";
    case comm::Collective::scatter:
      return "every rank gets its part of what the root has";
    case comm::Collective::send:
      return "every rank gets what the one before it has";
    case comm::Collective::barrier:
      return "no rank leaves before all have entered, each a millisecond after the one before";
    default:
      return "every rank gets its part from every rank";
  }
}

bool has_root(comm::Collective op) {
  using enum comm::Collective;
  return op == reduce || op == broadcast || op == gather || op == scatter;
}

std::string values(std::span<const float> held) {
  constexpr std::size_t shown = 8;
  if (held.empty()) return "-";
  return fmt::format("{}{}", fmt::join(held.first(std::min(held.size(), shown)), " "), held.size() > shown ? " ..." : "");
}

void measure_bandwidths(Session& session, Log& log, Answer& answer) {
  comm::Communicator& world = session.world();
  lab::CollectiveReport report;
  const double memory = 1e-9 * lab::triad_bandwidth(session.team(), session.runtime().memory(), world);
  const lab::CollectiveBenchOptions options{
      .ops = {comm::Collective::all_reduce}, .bytes = {1 << 12, 1 << 20, 1 << 24}, .trials = 10, .warmups = 3};
  lab::bench_collectives(options, session.runtime(), world, report);
  log.plain(fmt::format("bandwidths\n  memory, all ranks together (STREAM's triad): {:.1f} GBps", memory));
  Table table = Table::of_keys({"bytes", "seconds", "busbw_gbps"});
  for (const lab::CollectiveRow& row : report.rows) {
    table.row({row.bytes, row.median_seconds(), 1e-9 * row.busbw()});
    log.plain(fmt::format("  all_reduce of {:>8} bytes: {:>9.1f} us, busbw {:.2f} GBps", row.bytes, 1e6 * row.median_seconds(),
                          1e-9 * row.busbw()));
  }
  answer.fact("memory_gbps", memory);
  answer.rows("all_reduce", table);
}

// The order of bf16 products follows a rule that may not know this processor.
void warn_of_bf16_order(Session& session, Log& log) {
  comm::Communicator& world = session.world();
  const double gain = session.leads_process() ? lab::gain_of_other_order(session.runtime()) : 0;
  const std::vector<std::string> notes = comm::all_texts(world, lab::order_note(ops::usual_bf16_order(), gain));
  for (std::size_t rank = 0; rank < notes.size(); ++rank)
    if (!notes[rank].empty()) log.warning(fmt::format("rank {}: {}", rank, notes[rank]));
}

// What any rank finds is known to all.
void add_causes(comm::Communicator& world, const std::string& mine, std::vector<std::string>& causes) {
  for (const std::string& cause : comm::all_texts(world, mine)) {
    if (!cause.empty()) causes.push_back(cause);
  }
}

int run(const Arguments& arguments) {
  std::optional<std::int64_t> asked;
  std::string machine_file, device = "cpu";
  AnswerLine line("doctor",
                  "Says whether this machine or cluster is fit for training. Shows who the ranks are, every collective with its "
                  "values before and after, bandwidths, and the training run of test_dist, whose outcome is known. Ends with a "
                  "verdict and exit code 0 (FIT) or 1 (UNFIT).");
  line.option("--ranks", asked, "N", "ranks (default: one a core; under mpiexec those it started)");
  line.option("--machine-file", machine_file, "F.toml", "a fit machine, measured, as lockstep plan search reads it");
  line.choice("--device", device, {"cpu", "cuda"},
              "what is examined; cuda: every kernel of the first GPU beside the processor's, which certifies it for training");
  line.note(
      "examples:\n  lockstep doctor\n  lockstep doctor --device cuda\n  lockstep doctor --machine-file here.toml\n  mpiexec -n 4 "
      "lockstep doctor");
  if (!line.read(arguments)) return 0;
  line.demand(machine_file.empty() || machine_file.ends_with(".toml"),
              fmt::format("--machine-file {}: must end in .toml, as plan search knows a file", machine_file),
              "--machine-file here.toml");
  line.collect([&] { demand_output("--machine-file", machine_file, is_own_machine); });
  line.demand(device == "cpu" || (!asked && machine_file.empty()), "--device cuda: one process looks at the first GPU alone",
              "leave --ranks and --machine-file out");
  line.check();
  if (device == "cuda") return examine_gpu(line);
  constexpr double timeout = 60;  // seconds: here no rank has reason to be late
  std::vector<std::string> causes;
  std::optional<planner::Machine> machine;
  Answer answer;
  try {
    run_on_ranks({.ranks = rank_count(asked).to_start, .timeout = timeout}, [&](Session& session) {
      Log log(line.told_to(), session.lead() ? Level::info : Level::critical, LogForm::stamped);
      Answer own;
      const std::vector<std::string> found = examine(session, log, own);
      if (session.leads_process()) causes = found;
      if (session.lead()) answer = std::move(own);
      if (machine_file.empty() || !found.empty()) return;
      planner::Machine measured = measured_machine(machine_file, {}, session);
      if (session.lead()) machine = std::move(measured);
    });
  } catch (const SystemError& error) {
    causes.emplace_back(error.what());
  }
  answer.facts({{"fit", causes.empty()}, {"causes", Json::Array(causes.begin(), causes.end())}});
  answer.say(visible(verdict(causes), LineBreaks::kept));
  line.show(answer);
  if (machine) answer.say(write_machine_file(machine_file, *machine));  // a full disk here says nothing of the machine's fitness
  line.print(answer);
  return causes.empty() ? 0 : 1;
}

// Both sides of one operation on every rank. Collective.
void print_sides(const std::string& title, const std::string& before, const std::string& after, Session& session, Log& log) {
  comm::Communicator& world = session.world();
  const std::vector<std::string> befores = comm::all_texts(world, before), afters = comm::all_texts(world, after);
  std::size_t width = 0;
  for (const std::string& text : befores) width = std::max(width, text.size());
  log.plain(title);
  for (std::size_t r = 0; r < befores.size(); ++r)
    log.plain(fmt::format("  rank {:<3} {:<{}}  ->  {}", r, befores[r], width, afters[r]));
}

}  // namespace

std::optional<std::string> show_collective(comm::Collective op, Session& session, Log& log) {
  comm::Communicator& world = session.world();
  const int ranks = world.size(), root = root_of(op, ranks);
  const std::int64_t elements = round_up(4, ranks);
  lab::CollectiveTrial trial(op, root, elements, world, session.team(), session.runtime().memory());
  trial.fill(elements);
  std::string before = values(trial.given());
  if (op == comm::Collective::barrier) {
    const std::chrono::milliseconds late(std::min(world.rank(), 50));
    before = fmt::format("enters {} ms late", late.count());
    world.barrier();
    std::this_thread::sleep_for(late);
  }
  trial.run();
  const std::string after =
      op == comm::Collective::barrier ? fmt::format("held for {:.3f} ms", 1e3 * trial.held_seconds()) : values(trial.got());
  print_sides(fmt::format("{}{}: {}", name_of(op), has_root(op) ? fmt::format(" (root {})", root) : "", meaning_of(op)), before,
              after, session, log);
  return trial.fault();
}

double test_loss(Session& session, Log& log) {
  const std::vector<lab::TestDistIteration> history = run_test_dist({}, "test-dist-plots", session, log);
  return history.back().loss;
}

std::vector<std::string> examine(Session& session, Log& log, Answer& answer, const Checks& checks) {
  comm::Communicator& world = session.world();
  std::vector<std::string> causes;
  log_ranks(session, log);
  for (const comm::Collective op : lab::tried_collectives())
    add_causes(world, checks.collective(op, session, log).value_or(""), causes);
  if (!causes.empty()) return causes;  // no run can be trusted
  measure_bandwidths(session, log, answer);
  warn_of_bf16_order(session, log);
  const double loss = checks.loss(session, log);
  add_causes(world,
             loss < loss_bound ? ""  // not for a NaN
                               : fmt::format("the loss of test_dist on rank {} is {:.6g} after 100 iterations, not below {}",
                                             world.rank(), loss, loss_bound),
             causes);
  return causes;
}

std::string verdict(const std::vector<std::string>& causes) {
  if (causes.empty()) return "FIT: every collective is correct and the test run learned what it should\n";
  return fmt::format("UNFIT: {}\n", fmt::join(causes, "\n       "));
}

Command doctor_command() { return {"doctor", "is this machine or cluster fit for training?", run}; }

}  // namespace lockstep::app
