#include "lab/collectives/older_benches.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/median.h"
#include "base/timer.h"
#include "comm/text.h"
#include "lab/collectives/bench_collectives.h"
#include "lab/machine.h"

namespace lockstep::lab {
namespace {

template <class Call>
double median_call(int calls, comm::Communicator& world, const Call& call) {
  constexpr int warmups = 5;
  std::vector<double> seconds;
  for (int i = -warmups; i < calls; ++i) {
    world.barrier();
    const double start = now_seconds();
    call();
    const double took = slowest_of(now_seconds() - start, world);
    if (i >= 0) seconds.push_back(took);
  }
  return median_of(seconds);
}

}  // namespace

LegacyReport bench_legacy(std::int64_t bytes, int trials, const std::string& name, Runtime& runtime, comm::Communicator& world) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const std::int64_t elements = bytes / static_cast<std::int64_t>(sizeof(float)) / world.size() * world.size();
  ensure(elements >= 1, "every rank has an element");
  LegacyReport report{
      .names = comm::all_texts(world, name), .bytes = elements * static_cast<std::int64_t>(sizeof(float)), .seconds = {}};
  const Memory memory = world.window(runtime.memory()).allocate(static_cast<std::size_t>(report.bytes));
  const std::span<float> values(reinterpret_cast<float*>(memory.data()), static_cast<std::size_t>(elements));
  const std::vector<std::int64_t> counts(ranks, 1);
  for (int trial = 0; trial < trials; ++trial) {
    std::ranges::fill(values, 1.0F);
    world.barrier();
    const double start = now_seconds();
    world.all_reduce(view(values, Shape{elements}), comm::Reduction::sum).wait();
    double took = now_seconds() - start;
    if (values.front() != static_cast<float>(ranks) || values.back() != static_cast<float>(ranks))
      throw SystemError(fmt::format("all_reduce (sum) of ones over {} ranks gave {}", ranks, values.front()));
    std::vector<double>& all = report.seconds.emplace_back(ranks);
    world.host().all_gather(view(std::span(all), Shape{std::ssize(all)}), view(std::span(&took, 1), Shape{1}), counts).wait();
  }
  return report;
}

Answer answer_of(const LegacyReport& report) {
  Table table({{"trial", "", ""}, {"rank", "", ""}, {"seconds", "", ""}});
  constexpr double giga = 1e9;
  const auto size = static_cast<double>(report.bytes);
  std::string text;
  for (const std::string& name : report.names) text += fmt::format("{} data size: {} GB\n", name, size / giga);
  for (std::size_t trial = 0; trial < report.seconds.size(); ++trial) {
    text += fmt::format("\n\n\n-----------trial-{}----------------\n", trial);
    for (std::size_t rank = 0; rank < report.names.size(); ++rank) {
      const double seconds = report.seconds[trial][rank], throughput = 2 * size / seconds * 8;
      const double busbw = size / seconds * bus_factor(comm::Collective::all_reduce, static_cast<int>(report.names.size())) * 8;
      text += fmt::format("{}:\n duration: {:.4f} sec\n algo throughput: {:.4f} bps, {:.4f} Gbps\n busbw: {:.4f}  Gbps\n",
                          report.names[rank], seconds, throughput, throughput / giga, busbw / giga);
      table.row({trial, report.names[rank], seconds});
    }
  }
  Answer answer;
  answer.say(text);
  answer.fact("bytes", report.bytes);
  answer.rows("rows", table);
  return answer;
}

FlagReport bench_flags(int calls, comm::Communicator& world) {
  FlagReport report{.ranks = world.size(), .calls = calls};
  const std::string done = "done";
  report.objects = median_call(calls, world, [&] {
    for (const std::string& text : comm::all_texts(world, done)) ensure(text == done, "every rank's text arrives");
  });
  report.tensors = median_call(calls, world, [&] {
    float flag = 1;
    world.host().all_reduce(view(std::span(&flag, 1), Shape{1}), comm::Reduction::sum).wait();
    ensure(flag == static_cast<float>(world.size()), "every rank's flag is added");
  });
  return report;
}

Answer answer_of(const FlagReport& report) {
  Answer answer;
  answer.facts({{"ranks", report.ranks}, {"calls", report.calls}, {"objects_s", report.objects}, {"tensors_s", report.tensors}});
  answer.say(
      fmt::format("How {} ranks tell each other that they are done (median of {} calls, slowest rank):\n"
                  "  a text of each, gathered by all:   {:>10.2f} us\n"
                  "  one number of each, added for all: {:>10.2f} us\n"
                  "objects take {:.1f} x the time of a tensor\n",
                  report.ranks, report.calls, 1e6 * report.objects, 1e6 * report.tensors, report.objects / report.tensors));
  return answer;
}

}  // namespace lockstep::lab
