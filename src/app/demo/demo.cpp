// `lockstep demo` trains one model from one seed in two ways, and compares the hashes of its weights.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/commands.h"
#include "app/demo/demo_training.h"
#include "app/folder/answer_line.h"
#include "base/number_text.h"
#include "base/rng.h"
#include "base/terminal.h"
#include "base/units.h"
#include "checkpoint/find.h"
#include "comm/mpi/mpi_job.h"
#include "io/temporary_folder.h"
#include "lab/verify/planted_faults.h"
#include "lab/verify/verify.h"

namespace lockstep::app {
namespace {

struct Options {
  std::string layout, fault = "none", isa = "auto", folder;
  std::optional<std::int64_t> kill_at, seed;
  bool first_steps = false;
  const DemoLength& length() const { return first_steps ? short_demo : whole_demo; }
};

void declare(AnswerLine& line, Options& options) {
  line.option("--layout", options.layout, "WORDS", "how ranks share the second training; left out: asked for, or drawn");
  line.option("--kill-at", options.kill_at, "STEP", "behind which it is killed; left out: asked for, or drawn");
  line.option("--seed", options.seed, "N", "draws both; left out: another one each time");
  std::vector<std::string> faults{"none"};
  std::vector<HelpRow> rows;
  for (const lab::PlantedFault& fault : lab::planted_faults()) {
    faults.emplace_back(fault.name);
    rows.push_back({std::string(fault.name), fmt::format("{} ({})", fault.about, fault.layout)});
  }
  line.choice("--break", options.fault, faults, "plant a fault in the ranks, and have it found");
  line.flag("--short", options.first_steps,
            fmt::format("train the first {} steps alone, which have a hash too", short_demo.steps));
  line.option("--isa", options.isa, "auto|avx2|avx512|avx512_bf16|amx|neon", "instruction set of all trainings");
  line.option("--dir", options.folder, "FOLDER", "a new one, which keeps the text and the runs; left out: they are removed");
  line.table("faults", std::move(rows));
  line.note(
      "examples:\n"
      "  lockstep demo\n"
      "  lockstep demo --layout dp=2,tp=2 --kill-at 117\n"
      "  lockstep demo --break drop-bucket\n"
      "The words of a layout are those of `lockstep verify --help`. docs/demo.md says what the hash promises.");
}

/// The folder that --dir names, or a temporary one.
class DemoFolder {
 public:
  explicit DemoFolder(const std::string& asked) {
    if (asked.empty()) {
      path_ = temporary_.emplace("demo").path();
    } else {
      std::filesystem::create_directories(asked);
      path_ = std::filesystem::canonical(asked);
    }
  }
  const io::Path& path() const { return path_; }

 private:
  std::optional<io::TemporaryFolder> temporary_;
  io::Path path_;
};

std::vector<Problem> check_folder(const std::string& folder) {
  std::error_code ignored;
  if (folder.empty() || !std::filesystem::exists(folder, ignored) || std::filesystem::is_empty(folder, ignored)) return {};
  return {{fmt::format("--dir {}: something is there", folder), "name a folder that is new or empty"}};
}

/// What a person types; nothing at the end of the input.
std::optional<std::string> answer_to(const std::string& question) {
  say(stdout, question);
  std::fflush(stdout);
  std::string text;
  if (!std::getline(std::cin, text)) return std::nullopt;
  return text;
}

/// Asks until the answer is one, or nothing. `read`: whether a text is an answer; says what is wrong with it.
void ask(const std::string& question, const std::function<bool(const std::string&, std::vector<Problem>&)>& read) {
  for (;;) {
    const std::optional<std::string> text = answer_to(question);
    if (!text || text->empty()) return;
    std::vector<Problem> problems;
    if (read(*text, problems)) return;
    for (const Problem& problem : problems) say(stdout, fmt::format("  {}\n  -> {}\n", problem.message, problem.remedy));
  }
}

bool may_kill_at(std::int64_t step, const DemoLength& length) { return step >= 1 && step <= length.last_kill; }

Problem wrong_kill(const std::string& step, const DemoLength& length) {
  return {fmt::format("--kill-at {}: must be from 1 to {} of {} steps", step, length.last_kill, length.steps),
          fmt::format("--kill-at {}", length.last_kill / 2)};
}

/// What has not been said is asked for at a terminal, and drawn elsewhere.
void complete(Options& options, bool asks) {
  if (asks && options.layout.empty()) {
    ask("How shall ranks share the second training? Words such as dp=2,tp=2 (Enter draws): ",
        [&](const std::string& text, std::vector<Problem>& problems) {
          const bool good = demo_layout(text, problems).has_value();
          if (good) options.layout = text;
          return good;
        });
  }
  if (asks && !options.kill_at) {
    ask(fmt::format("Behind which of {} steps shall it be killed? (Enter draws): ", options.length().steps),
        [&](const std::string& text, std::vector<Problem>& problems) {
          const auto step = number_from<std::int64_t>(text);
          if (step && may_kill_at(*step, options.length())) options.kill_at = step;
          if (!options.kill_at) problems.push_back(wrong_kill(text, options.length()));
          return options.kill_at.has_value();
        });
  }
  const CounterRng rng(static_cast<std::uint64_t>(*options.seed), "demo.choice");
  if (options.layout.empty()) options.layout = drawn_layout(rng.word(0));
  if (!options.kill_at)
    options.kill_at = 1 + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(options.length().last_kill), 1));
}

class Demo {
 public:
  Demo(const Options& options, AnswerLine& line)
      : options_(options), line_(line), folder_(options.folder), isa_(ops::resolve(ops::isa_from_name(options.isa))) {
    prepare_demo(folder_.path());
    say("The text: {} of a small grammar. The model: a Llama of 4 blocks, width 128. {} steps of {} x 64 tokens.\n\n",
        format_bytes(std::filesystem::file_size(folder_.path() / "text.txt")), length_.steps, demo_samples);
    answer_.facts({{"promised", std::string(length_.hash)}, {"isa", std::string(ops::name_of(isa_))}});
  }

  int run(const lab::Layout& layout) {
    const std::string one = hash_of({.folder = folder_.path() / "one-rank", .isa = isa_, .length = length_}, "one rank", {});
    const std::string other = hash_of({.folder = folder_.path() / "second", .layout = layout, .isa = isa_, .length = length_},
                                      options_.layout, options_.kill_at);
    const bool promised = isa_ != ops::Isa::baseline, equal = one == other && (!promised || one == length_.hash);
    answer_.facts({{"hash", one},
                   {"second", other},
                   {"layout", options_.layout},
                   {"kill_at", *options_.kill_at},
                   {"seed", *options_.seed},
                   {"equal", equal}});
    if (promised) say("{:<{}}  {}  promised, in every layout on AVX2, AVX-512 and NEON\n", "", name_width, length_.hash);
    if (!promised)
      say("This processor has no fused multiply-add: its bits are its own, and the promised ones are {}.\n", length_.hash);
    say("\n{}\n", equal          ? "Equal: the layout, the kill and the resume changed nothing."
                  : one == other ? "The two are equal, but not to the promised hash: this program computes something else."
                                 : "NOT EQUAL: the promise is broken here. lockstep verify tells where.");
    return end(equal);
  }

  int run_broken(const lab::PlantedFault& fault, const lab::Layout& layout) {
    const auto around = [&](comm::Communicator& world) { return std::make_unique<lab::FaultyWorld>(world, fault.make()); };
    say("Planted: {}: {}.\n", fault.name, fault.about);
    const std::string hash =
        hash_of({.folder = folder_.path() / "broken", .layout = layout, .isa = isa_, .length = length_, .around = around},
                std::string(fault.layout), {});
    say("{:<{}}  {}  promised: {}\n\n", "", name_width, length_.hash, hash == length_.hash ? "nothing shows" : "not these");
    lab::TrialParts parts;
    parts.world = around;
    const lab::VerifyOptions verify{.models = {demo_verify_model(layout)}, .layouts = {layout}};
    std::vector<std::string> wrong;
    for (const lab::LayoutReport& report : lab::verify(verify, [](const lab::LayoutReport&) {}, parts)) {
      if (report.wanted) wrong = report.wrong;
    }
    const bool found = !wrong.empty() && hash != length_.hash;
    answer_.facts({{"fault", std::string(fault.name)},
                   {"layout", std::string(fault.layout)},
                   {"hash", hash},
                   {"found", found},
                   {"first", wrong.empty() ? Json() : Json(wrong.front())}});
    say("Every loss, gradient and weight of three steps was compared with one rank's. {}\n",
        wrong.empty() ? "None differs." : "The first that differs:\n  " + wrong.front());
    return end(found);
  }

 private:
  static constexpr int name_width = 26;

  template <class... Values>
  void say(fmt::format_string<Values...> text, Values&&... values) {
    answer_.say(fmt::format(text, std::forward<Values>(values)...));
    line_.show(answer_);
  }

  /// Trains, is killed where that is wanted, goes on, and tells the hash.
  std::string hash_of(const DemoTraining& training, const std::string& name, std::optional<std::int64_t> kill_at) {
    double seconds = 0;
    const auto train = [&](std::optional<std::int64_t> at) {
      ProgressBar bar(line_.told_to(), name, static_cast<double>(length_.steps));
      DemoOutcome outcome = train_demo(training, at, [&](std::int64_t step, double loss) {
        bar.update(static_cast<double>(step), fmt::format("loss {:.2f}", loss));
      });
      seconds += outcome.seconds;
      return outcome;
    };
    DemoOutcome outcome = train(kill_at);
    const double first_loss = outcome.first_loss;
    std::string story = kill_at ? "" : "never stopped";
    if (kill_at && outcome.code == 128 + SIGKILL) {
      const std::int64_t from = checkpoint::saved_step(training.folder).value_or(0);
      answer_.facts({{"killed_behind", outcome.steps}, {"resumed_from", from}});
      story = fmt::format("kill -9 behind step {}, resumed from {}", outcome.steps, from);
      outcome = train({});
    }
    if (outcome.code == kInterrupted || outcome.code == 128 + SIGINT) throw SystemError("the demo was interrupted");
    if (outcome.code == 0 && story.empty()) throw SystemError("the training ended before its kill came: try again");
    if (outcome.code != 0)
      throw SystemError(fmt::format("the training of {} ended with exit code {}{}{}", name, outcome.code,
                                    outcome.last_words.empty() ? "" : ": ", outcome.last_words));
    const std::string hash = demo_hash(training.folder);
    say("{:<{}}  {}  {}; loss {:.2f} -> {:.2f}, {}\n", name, name_width, hash, story, first_loss, outcome.last_loss,
        format_seconds(seconds));
    return hash;
  }

  int end(bool good) {
    if (!options_.folder.empty()) say("Text and runs are in {}.\n", folder_.path().string());
    line_.print(answer_);
    return good ? 0 : 1;
  }

  const Options& options_;
  const DemoLength& length_ = options_.length();
  AnswerLine& line_;
  Answer answer_;
  DemoFolder folder_;
  ops::Isa isa_;
};

int demo(const Arguments& arguments) {
  Options options;
  AnswerLine line(
      "demo",
      "Show that what a run learns has one hash. A small model is trained on one rank, then in another layout, which is "
      "killed at a step and resumed. The SHA-256 of the weights is printed beside the one that the program promises for every "
      "layout. Exit code 0: all are equal, or "
      "with --break the fault was found. 1: they are not.");
  declare(line, options);
  if (!line.read(arguments)) return 0;
  if (const auto job = comm::find_mpi_job()) {
    throw UserError(fmt::format("demo under {}: it starts its ranks by itself", job->launcher),
                    fmt::format("start it without {}", job->launcher));
  }
  const bool asks = is_terminal(stdin) && is_terminal(stdout) && line.told_to() == stdout && !options.seed;
  const bool breaks = options.fault != "none";
  line.demand(!breaks || (options.layout.empty() && !options.kill_at),
              fmt::format("--break {}: it has a layout of its own, and nothing is killed", options.fault),
              "leave out --layout and --kill-at");
  if (options.kill_at && !may_kill_at(*options.kill_at, options.length()))
    line.problems().push_back(wrong_kill(std::to_string(*options.kill_at), options.length()));
  for (Problem& problem : check_folder(options.folder)) line.problems().push_back(std::move(problem));
  line.collect([&] { ops::resolve(ops::isa_from_name(options.isa)); });
  if (!options.layout.empty()) demo_layout(options.layout, line.problems());
  line.check();
  if (breaks) {
    const lab::PlantedFault& fault = lab::planted_fault(options.fault);
    const std::optional<lab::Layout> layout = demo_layout(std::string(fault.layout), line.problems());
    line.check();
    return Demo(options, line).run_broken(fault, *layout);
  }
  if (!options.seed) options.seed = static_cast<std::int64_t>(std::random_device()() >> 1U);
  complete(options, asks);
  const std::optional<lab::Layout> layout = demo_layout(options.layout, line.problems());
  line.check();
  return Demo(options, line).run(*layout);
}

}  // namespace

Command demo_command() { return {"demo", "train twice, once killed: one seed has one hash", demo}; }

}  // namespace lockstep::app
