// `lockstep bench`: how fast this machine trains, and how fast it could.

#include "app/bench/bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/cli/commands.h"
#include "app/gpu/device_option.h"
#include "io/file.h"
#include "ops/cpu/options.h"

namespace lockstep::app {

BenchLine::BenchLine(const Bench& bench, const Arguments& arguments)
    : AnswerLine("bench " + bench.name, bench.about), name_(bench.name), arguments_(arguments) {
  ask_csv();
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

void BenchLine::ask_isa() { option("--isa", isa_, "auto|avx2|avx512|avx512_bf16|amx", "instruction set"); }

void BenchLine::ask_device() { choice("--device", device_, {"cpu", "cuda"}, "what computes"); }

void BenchLine::ask_dtype(const std::string& whose) { choice("--dtype", dtype_, dtype_spellings(), "type " + whose); }

void BenchLine::ask_folder() {
  option("--folder", folder_, "DIR", "on the disk that is measured; what is written there is deleted again");
  after([this] {
    const std::string why = io::why_no_folder(folder_);
    demand(why.empty(), fmt::format("--folder {}: {}", folder_, why), "name one on the disk that is to be measured");
  });
}

void BenchLine::ask_seconds(double& seconds, std::string meaning) {
  const std::string remedy = fmt::format("--seconds {}", seconds);
  option("--seconds", seconds, "S", std::move(meaning));
  after([this, &seconds, remedy] { demand(seconds > 0, fmt::format("--seconds {}: must be above 0", seconds), remedy); });
}

RankOptions BenchLine::rank_options() const {
  return {.ranks = asks_ranks_ ? ranks().to_start : 1, .threads = threads_, .isa = ops::isa_from_name(isa_), .device = device_};
}

Answer BenchLine::on_ranks(const RankOptions& ranks, const std::function<Answer(Session&)>& measure) {
  check();
  Answer answer;
  tell_of_device_option([&] {
    run_on_ranks(ranks, [&](Session& session) {
      Answer own = measure(session);
      if (session.lead()) answer = std::move(own);
    });
  });
  return answer;
}

namespace {

int run_bench(const Arguments& arguments) {
  std::vector<Command> commands;
  for (const Bench& bench : benches()) {
    commands.push_back({bench.name, bench.summary, [bench](const Arguments& own) {
                          BenchLine line(bench, own);
                          if (const std::optional<Answer> answer = bench.run(line)) line.print(*answer);
                          return 0;
                        }});
  }
  return run_one_of(
      commands,
      {.name = "bench", .kind = "bench", .kinds = "benches", .about = "How fast this machine trains, and how fast it could."},
      arguments);
}

}  // namespace

Command bench_command() { return {"bench", "how fast this machine trains, and how fast it could", run_bench}; }

}  // namespace lockstep::app
