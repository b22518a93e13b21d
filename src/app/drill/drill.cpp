// `lockstep drill` disturbs short copies of a run, and says what came of each fault.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/commands.h"
#include "app/drill/drill_copy.h"
#include "app/drill/drill_faults.h"
#include "app/drill/drill_play.h"
#include "app/folder/answer_line.h"
#include "base/terminal.h"
#include "base/text/columns.h"
#include "base/text/visible.h"
#include "base/units.h"
#include "comm/mpi/mpi_job.h"
#include "io/temporary_folder.h"

namespace lockstep::app {
namespace {

constexpr int columns = 80, fault_width = 30;

struct Options {
  DrillRequest request;
  FaultWords faults;
  std::string folder;
};

void declare(AnswerLine& line, Options& options) {
  line.positional("RUN", options.request.run, "a run's folder, or that of one of its checkpoints: its settings are copied");
  line.option("--kill", options.faults.kill, "RANK[@STEP]",
              "a rank dies (SIGKILL) as a step begins; without @STEP in the middle of the copy");
  line.option("--stop", options.faults.stop, "RANK[@STEP]", "a rank hangs (SIGSTOP)");
  line.option("--slow", options.faults.slow, "RANKxF[@STEP]", "a rank takes F times as long from then on");
  line.option("--flip", options.faults.flip, "TENSOR[@STEP]", "one bit of a weight changes");
  line.option("--nan", options.faults.nan, "TENSOR[@STEP]", "a weight becomes NaN");
  line.option("--cut", options.faults.cut, "HOST[@STEP]", "all ranks of one of several hosts hang at once");
  line.flag("--full-disk", options.faults.full_disk, "STEP", 0, "no file of a rank can grow any more");
  line.option("--random", options.faults.random, "N", "play N more faults, drawn by --seed", 10000);
  line.option("--seed", options.faults.seed, "N", "what --random draws");
  line.option("-n", options.request.ranks, "N", "ranks of the copies; left out: those of the run");
  line.option("--hostfile", options.request.hostfile, "FILE", "the hosts, as lockstep launch takes it");
  line.option("--dir", options.folder, "FOLDER", "a new one, which keeps copies and logs; left out: they are removed");
  line.overrides(options.request.settings, "a setting of the copies, as train.max_iters=60 or comm.timeout=60");
  line.ask_csv();
  line.daily({"--kill", "--stop", "--slow", "--flip", "--nan", "--full-disk", "--random"});
  line.note(
      "examples:\n"
      "  lockstep drill runs/a --kill 1 --stop 1\n"
      "  lockstep drill runs/a --slow 1x1.5@10 --full-disk comm.timeout=30\n"
      "  lockstep drill runs/a --random 50 --seed 7 --csv --out drills.csv\n"
      "Faults may be given several times. docs/drills.md says what each does, and what the verdicts mean.");
}

enum class Verdict : std::uint8_t { survived, safe_end, wrong_bits, bad_end, not_played };
constexpr std::array<std::string_view, 5> verdicts{"survived", "safe end", "WRONG BITS", "BAD END", "NOT PLAYED"};
std::string_view name_of(Verdict verdict) { return verdicts[static_cast<std::size_t>(verdict)]; }

Verdict verdict_of(const DrillOutcome& outcome, const std::string& reference) {
  if (!outcome.played) return Verdict::not_played;
  if (outcome.code == 0) return outcome.hash == reference ? Verdict::survived : Verdict::wrong_bits;
  return outcome.found && outcome.saved ? Verdict::safe_end : Verdict::bad_end;
}

std::string seconds_text(const std::optional<double>& seconds) { return seconds ? fmt::format("{:.1f} s", *seconds) : "-"; }

class Drill {
 public:
  Drill(const DrillCopy& copy, const io::Path& folder, bool keeps, AnswerLine& line)
      : copy_(copy), line_(line), keeps_(keeps), stage_(copy, folder) {}

  int play(const std::vector<train::DrillFault>& faults) {
    begin();
    std::size_t number = 0;
    for (const train::DrillFault& fault : faults) play(fault, ++number);
    end();
    line_.print(answer_);
    return good_ ? 0 : 1;
  }

 private:
  template <class... Values>
  void say(fmt::format_string<Values...> text, Values&&... values) {
    answer_.say(fmt::format(text, std::forward<Values>(values)...));
    line_.show(answer_);
  }

  DrillStage::Told bar(ProgressBar& bar) const {
    return [&bar](std::int64_t step) { bar.update(static_cast<double>(step), fmt::format("step {}", step)); };
  }

  void begin() {
    const RunConfig& config = copy_.config;
    const double steps = static_cast<double>(config.train.max_iters);
    say("{}\n",
        folded(fmt::format("The copy: {} rank{}, {} steps, a checkpoint every {}, comm.timeout {:g} s{}.", copy_.ranks,
                           copy_.ranks == 1 ? "" : "s", config.train.max_iters, checkpoint_interval(config), config.comm.timeout,
                           config.comm.timeout == copy_.run_timeout
                               ? ""
                               : fmt::format(" (the run: {:g} s, so a rank that hangs is found later)", copy_.run_timeout)),
               columns));
    ProgressBar shown(line_.told_to(), "undisturbed", steps);
    const DrillOutcome& reference = stage_.undisturbed(bar(shown));
    shown.finish();
    reference_ = reference.hash;
    say("Undisturbed: {}, weights {}\n\n", format_seconds(reference.seconds), reference_.substr(0, 16));
    say("{:<{}}  {:>8}  {:>8}  {:>6}  {:<5}  {}\n", "fault", fault_width, "found", "goes on", "again", "bits", "verdict");
    answer_.facts({{"ranks", copy_.ranks},
                   {"steps", config.train.max_iters},
                   {"timeout", config.comm.timeout},
                   {"seconds", reference.seconds},
                   {"hash", reference_}});
  }

  void play(const train::DrillFault& fault, std::size_t number) {
    const std::string option = option_of(fault);
    ProgressBar shown(line_.told_to(), option, static_cast<double>(copy_.config.train.max_iters));
    const DrillOutcome outcome = stage_.disturbed(fault, fmt::format("{}-{}", number, fault.name()), keeps_, bar(shown));
    shown.finish();
    const Verdict verdict = verdict_of(outcome, reference_);
    ++counts_[static_cast<std::size_t>(verdict)];
    good_ = good_ && (verdict == Verdict::survived || verdict == Verdict::safe_end);
    const bool ended = outcome.code == 0, equal = outcome.hash == reference_;
    const std::string wide = option.size() > fault_width ? fmt::format("{}\n{:<{}}", option, "", fault_width) : option;
    say("{:<{}}  {:>8}  {:>8}  {:>6}  {:<5}  {}\n", wide, fault_width, seconds_text(outcome.found), seconds_text(outcome.goes_on),
        outcome.repeated,
        !ended  ? "-"
        : equal ? "same"
                : "other",
        name_of(verdict));
    say("  {}\n", folded(about(fault), columns - 2, 2));
    say("  {}\n", folded(words_of(outcome), columns - 2, 2));
    table_.row({option, std::string(name_of(verdict)), outcome.played, number_or_null(outcome.found),
                number_or_null(outcome.goes_on), outcome.repeated, ended ? Json(equal) : Json(),
                static_cast<std::int64_t>(outcome.code), outcome.saved ? Json(*outcome.saved) : Json(), outcome.said,
                outcome.last, outcome.seconds});
  }

  static Json number_or_null(const std::optional<double>& number) { return number ? Json(*number) : Json(); }

  /// What was heard of the fault.
  static std::string words_of(const DrillOutcome& outcome) {
    std::string words = outcome.said.empty() ? "nobody said a word of it" : visible(outcome.said);
    if (outcome.code == 0) return words;
    if (outcome.last != outcome.said) words += "; at last: " + visible(outcome.last);
    words += fmt::format("; exit code {}", outcome.code);
    return outcome.saved ? fmt::format("{}, the last checkpoint is that of step {}", words, *outcome.saved)
                         : words + ", there is no checkpoint";
  }

  void end() {
    std::string sums;
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      if (counts_[i] > 0) sums += fmt::format("{}{} {}", sums.empty() ? "" : ", ", counts_[i], verdicts[i]);
    }
    say("\n{}\n", sums);
    answer_.fact("good", good_);
    answer_.rows("faults", table_);
  }

  const DrillCopy& copy_;
  AnswerLine& line_;
  bool keeps_, good_ = true;
  DrillStage stage_;
  Answer answer_;
  std::string reference_;
  std::array<int, verdicts.size()> counts_{};
  Table table_ = Table::of_keys({"fault", "verdict", "played", "found_seconds", "goes_on_seconds", "repeated_steps", "same_bits",
                                 "exit_code", "saved_step", "said", "last", "seconds"});
};

void check(const Options& options, const std::vector<train::DrillFault>& faults, AnswerLine& line) {
  if (const auto job = comm::find_mpi_job()) {
    line.problems().push_back({fmt::format("drill under {}: it starts its ranks by itself", job->launcher),
                               fmt::format("start it without {}", job->launcher)});
  }
  line.demand(!faults.empty() || options.faults.random || !line.problems().empty(), "no fault is named",
              "--kill 1, or --random 5; lockstep drill --help lists them");
  line.demand(!options.faults.random || *options.faults.random > 0, "--random 0: nothing would be drawn", "--random 5");
  std::error_code ignored;
  const std::string& folder = options.folder;
  line.demand(folder.empty() || !std::filesystem::exists(folder, ignored) || std::filesystem::is_empty(folder, ignored),
              fmt::format("--dir {}: something is there", folder), "name a folder that is new or empty");
}

int drill(const Arguments& arguments) {
  Options options;
  AnswerLine line(
      "drill",
      "Show what becomes of a run when something breaks. Short copies of it are trained by lockstep launch --retries, "
      "each with one fault, and compared with a copy that nothing disturbed. The run itself is only read. "
      "Exit code 0: every fault was survived. The copy ended with the same bits, or with a sentence and a "
      "checkpoint to go on from. 1: one was not.");
  declare(line, options);
  if (!line.read(arguments)) return 0;
  std::vector<train::DrillFault> faults = read_faults(options.faults, line.problems());
  check(options, faults, line);
  for (const train::DrillFault& fault : faults) options.request.latest_fault = std::max(options.request.latest_fault, fault.step);
  DrillCopy copy;
  line.collect([&] {
    copy = copy_of(options.request);
    place_faults(faults, copy.ground, line.problems());
  });
  line.demand(copy.ground.hosts.size() < 2 || !options.folder.empty(),
              fmt::format("{} hosts take part, and they must share the folder of the copies", copy.ground.hosts.size()),
              "--dir FOLDER on a file system that all of them see");
  line.check();
  if (options.faults.random) {
    std::vector<train::DrillFault> drawn = drawn_faults(*options.faults.random, options.faults.seed, copy.ground);
    place_faults(drawn, copy.ground, line.problems());
    line.check();
    std::ranges::move(drawn, std::back_inserter(faults));
  }
  std::optional<io::TemporaryFolder> temporary;
  if (options.folder.empty()) temporary.emplace("drill");
  if (!options.folder.empty()) io::make_folders(options.folder);
  const io::Path folder = temporary ? temporary->path() : io::Path(std::filesystem::canonical(options.folder));
  return Drill(copy, folder, !temporary, line).play(faults);
}

}  // namespace

Command drill_command() { return {"drill", "what becomes of a run when something breaks", drill}; }

}  // namespace lockstep::app
