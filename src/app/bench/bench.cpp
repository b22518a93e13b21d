// `lockstep bench`: how fast this machine trains, and how fast it could.

#include "app/bench/bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "app/cli/commands.h"
#include "app/folder/output_file.h"
#include "base/text/columns.h"
#include "io/file.h"
#include "ops/cpu/options.h"

namespace lockstep::app {

BenchLine::BenchLine(const Bench& bench, const Arguments& arguments)
    : CommandLine("bench " + bench.name, bench.about), name_(bench.name), arguments_(arguments) {
  note(bench.note);
}

void BenchLine::ask_shape(std::string standard) {
  shape_ = std::move(standard);
  option("--shape", shape_, "SHAPE", fmt::format("{} (samples x length)", fmt::join(lab::step_shape_names(), ", ")));
}

void BenchLine::ask_ranks() {
  asks_ranks_ = true;
  option("--ranks", ranks_, "N", "ranks (default: one a core; under mpiexec those it started)");
}

void BenchLine::ask_threads() { option("--threads", threads_, "N", "of each rank; 0: its share of the cores"); }

void BenchLine::ask_isa() { option("--isa", isa_, "SET", "auto, avx2, avx512, avx512_bf16"); }

void BenchLine::ask_dtype(const std::string& whose) { choice("--dtype", dtype_, dtype_spellings(), "type " + whose); }

void BenchLine::ask_folder() {
  option("--folder", folder_, "DIR", "on the disk that is measured; what is written there is deleted again");
  after_.emplace_back([this] {
    const std::string why = io::why_no_folder(folder_);
    demand(why.empty(), fmt::format("--folder {}: {}", folder_, why), "name one on the disk that is to be measured");
  });
}

void BenchLine::ask_seconds(double& seconds, std::string meaning) {
  const std::string remedy = fmt::format("--seconds {}", seconds);
  option("--seconds", seconds, "S", std::move(meaning));
  after_.emplace_back(
      [this, &seconds, remedy] { demand(seconds > 0, fmt::format("--seconds {}: must be above 0", seconds), remedy); });
}

std::int64_t& BenchLine::declare_count(const std::string& name, std::int64_t standard, std::string value, std::string meaning,
                                       std::int64_t least, std::int64_t most) {
  std::int64_t& read = counts_.emplace_back(standard);
  option(name, read, std::move(value), std::move(meaning), std::max(most, most_int));
  after_.emplace_back([this, &read, name, standard, least, most] {
    const std::string rule = most == most_int ? fmt::format("at least {}", least) : fmt::format("from {} to {}", least, most);
    demand(read >= least && read <= most, fmt::format("{} {}: must be {}", name, read, rule),
           fmt::format("{} {}", name, std::max(standard, least)));
  });
  return read;
}

bool BenchLine::read() {
  flag("--json", json_, "one line of JSON");
  flag("--csv", csv_, "the tables with commas between, numbers as they were measured");
  option("--out", out_, "FILE", "where the answer goes, in place of standard output");
  if (!parse(arguments_)) return false;
  for (const auto& step : after_) step();
  demand(!json_ || !csv_, "--json and --csv are two formats", "ask for one");
  for (Problem& problem : check_output("--out", out_, [](std::string_view) { return false; }))
    problems_.push_back(std::move(problem));
  return true;
}

void BenchLine::demand(bool holds, std::string message, std::string remedy) {
  if (!holds) problems_.push_back({std::move(message), std::move(remedy)});
}

void BenchLine::check() {
  if (!problems_.empty()) throw UserError(std::move(problems_));
}

RankOptions BenchLine::rank_options() const {
  return {.ranks = asks_ranks_ ? ranks().to_start : 1, .threads = threads_, .isa = ops::isa_from_name(isa_)};
}

Answer BenchLine::on_ranks(const RankOptions& ranks, const std::function<Answer(Session&)>& measure) {
  check();
  Answer answer;
  run_on_ranks(ranks, [&](Session& session) {
    Answer own = measure(session);
    if (session.lead()) answer = std::move(own);
  });
  return answer;
}

void BenchLine::print(const Answer& answer) const {
  if (!is_first_process()) return;
  const std::string text = json_ ? answer.json() : csv_ ? answer.csv() : answer.text();
  if (out_.empty()) {
    std::fputs(text.c_str(), stdout);
  } else {
    io::replace_file(out_, text);
  }
}

std::vector<std::string> parts_of_list(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    parts.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

namespace {

int run_bench(const Arguments& arguments) {
  const std::vector<Bench> all = benches();
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    std::vector<HelpRow> rows;
    for (const Bench& bench : all) rows.push_back({bench.name, bench.summary});
    fmt::print(
        "lockstep bench: how fast this machine trains, and how fast it could\n\nusage: lockstep bench NAME "
        "[options]\n\nbenches:\n{}\n"
        "lockstep bench NAME --help lists its options.\n",
        two_columns(rows));
    return 0;
  }
  std::vector<std::string> names;
  for (const Bench& bench : all) {
    names.push_back(bench.name);
    if (bench.name != arguments[0]) continue;
    BenchLine line(bench, {arguments.begin() + 1, arguments.end()});
    if (const std::optional<Answer> answer = bench.run(line)) line.print(*answer);
    return 0;
  }
  throw UserError(fmt::format("unknown bench '{}'", arguments[0]), fmt::format("choose one of {}", fmt::join(names, ", ")));
}

}  // namespace

Command bench_command() { return {"bench", "how fast this machine trains, and how fast it could", run_bench}; }

}  // namespace lockstep::app
