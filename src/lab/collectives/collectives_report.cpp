// How reports about collectives look.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/terminal.h"
#include "lab/collectives/bench_collectives.h"
#include "planner/formulas/network.h"

namespace lockstep::lab {
namespace {

constexpr double giga = 1e9;

std::string payload_name(std::int64_t bytes) {
  constexpr std::array<std::string_view, 4> units{"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  while (unit + 1 < units.size() && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, units[unit]);
}

std::string clock_time(double seconds) {
  const auto whole = static_cast<long>(std::lround(seconds));
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string table_head(std::string_view first, std::string_view last) {
  return fmt::format(
      "| {:>7} |    busbw   |    algbw   |     busbw   |     algbw   |{}\n"
      "| ------: | ---------: | ---------: | ----------: | ----------: |{}\n",
      first, last, last.empty() ? "" : " -------: |");
}

std::string table_row(std::string_view first, double busbw, double algbw) {
  return fmt::format("| {:>7} | {:6.2f}GBps | {:6.2f}GBps | {:7.1f}Gbps | {:7.1f}Gbps |", first, busbw / giga, algbw / giga,
                     8 * busbw / giga, 8 * algbw / giga);
}

std::string title(const CollectiveReport& report, comm::Collective op) {
  return fmt::format("The average bandwidth of {} over {} ranks ({} warmups / {} trials):\n\n", name_of(op), report.ranks,
                     report.warmups, report.trials);
}

std::string legend(const CollectiveReport& report) {
  return fmt::format(
      "Legend: 1KiB = 2**10 Bytes, 1MiB = 2**20 Bytes, 1GiB = 2**30 Bytes\n"
      "        1GBps = 10**9 Bytes per second (networking bw spec convention), 1Gbps = 10**9 bits per second\n"
      "        networks between hosts: anywhere from 5 to 1600Gbps seen, 400Gbps or more wanted\n"
      "        floor: every input read once and every output written once at the {:.1f}GBps that all ranks' cores\n"
      "        reach together in STREAM's triad; above 100 % the caches helped\n"
      "Elapsed time: {}\n",
      report.memory_bandwidth / giga, clock_time(report.elapsed));
}

std::string barrier_line(const CollectiveReport& report, const CollectiveRow& row) {
  const auto [least, most] = std::ranges::minmax(row.slowest);
  return fmt::format(
      "\nA barrier over {} ranks ({} warmups / {} trials): {:.1f} us, the median of the slowest rank ({:.1f} - {:.1f})\n",
      report.ranks, report.warmups, report.trials, 1e6 * row.median_seconds(), 1e6 * least, 1e6 * most);
}

const CollectiveRow* largest(const CollectiveReport& report, comm::Collective op) {
  const CollectiveRow* found = nullptr;
  for (const CollectiveRow& row : report.rows)
    if (row.op == op && (found == nullptr || row.bytes > found->bytes)) found = &row;
  return found;
}

// Predictions of formulas for broadcasts and for networks, beside the measurements.
std::string formulas(const CollectiveReport& report) {
  std::string text;
  const CollectiveRow *broadcast = largest(report, comm::Collective::broadcast), *send = largest(report, comm::Collective::send);
  if (broadcast != nullptr && send != nullptr && send->bytes == broadcast->bytes && report.ranks > 1) {
    text += fmt::format("broadcast of {} round a ring of {} ranks, at the {:.2f}GBps of send:", payload_name(send->bytes),
                        report.ranks, send->algbw() / giga);
    for (const int messages : {1, 8, 64})
      text += fmt::format(
          " {:.3f} ms in {} message{},",
          1e3 * planner::ring_broadcast_seconds(static_cast<double>(send->bytes), send->algbw(), report.ranks, messages),
          messages, messages == 1 ? "" : "s");
    text += fmt::format(" measured {:.3f} ms\n", 1e3 * broadcast->median_seconds());
  }
  if (const CollectiveRow* sum = largest(report, comm::Collective::all_reduce); sum != nullptr && report.hosts > 1) {
    text += fmt::format("all_reduce of {}: each rank's share of the network, busbw x (hosts - 1) / (ranks - 1), is {:.2f}GBps\n",
                        payload_name(sum->bytes), planner::network_share(sum->busbw(), report.hosts, report.ranks) / giga);
  }
  return text;
}

std::string busbw_plot(const CollectiveReport& report) {
  std::vector<Series> series;
  for (const CollectiveRow& row : report.rows) {
    if (row.op == comm::Collective::barrier) continue;
    if (series.empty() || series.back().name != name_of(row.op)) series.push_back({std::string(name_of(row.op)), {}, {}});
    series.back().x.push_back(std::log2(static_cast<double>(row.bytes)));
    series.back().y.push_back(row.busbw() / giga);
  }
  return plot(fmt::format("busbw, GBps, {} ranks", report.ranks), "log2 of the payload in bytes", series);
}

/// A line of JSON a payload, with the keys that other programs' collective benchmarks print: bytes of the slowest rank's median.
Answer rows_of(const CollectiveReport& report) {
  const auto rounded = [](double value, double digits) { return std::round(value * digits) / digits; };
  const auto hidden = [](std::string key) { return Column{std::move(key), "", ""}; };
  Table table({hidden("peer"), hidden("op"), hidden("ranks"), hidden("bytes"), hidden("us"), hidden("algbw"), hidden("busbw"),
               hidden("trials")});
  for (const CollectiveRow& row : report.rows) {
    const double seconds = row.median_seconds(), algbw = static_cast<double>(row.bytes) / seconds / giga;
    table.row({report.peer, name_of(row.op), row.ranks, row.bytes, rounded(1e6 * seconds, 10), rounded(algbw, 1000),
               rounded(algbw * bus_factor(row.op, row.ranks), 1000), std::ssize(row.slowest)});
  }
  Answer answer;
  answer.lines(table);
  return answer;
}

}  // namespace

Answer answer_of(const CollectiveReport& report) {
  Answer answer = rows_of(report);
  std::string text = fmt::format("Environment:\n{}\n", report.environment);
  const CollectiveRow* last = nullptr;
  for (const CollectiveRow& row : report.rows) {
    if (row.op == comm::Collective::barrier) {
      text += barrier_line(report, row);
      continue;
    }
    if (last == nullptr || last->op != row.op) text += "\n" + title(report, row.op) + table_head("payload", " of floor |");
    text += table_row(payload_name(row.bytes), row.busbw(), row.algbw());
    text += fmt::format(" {:>6.0f} % |\n", 100 * row.share_of_floor(report.memory_bandwidth));
    last = &row;
  }
  if (report.rows.empty()) text += "\nnothing has been measured yet\n";
  if (report.stopped) text += "Stopped: these are the results so far\n";
  answer.say(text + formulas(report) + legend(report));
  if (report.rows.size() > 1) answer.say("\n" + busbw_plot(report));
  return answer;
}

Answer stability_of(const CollectiveReport& report) {
  Answer answer = rows_of(report);
  std::string text = fmt::format("Environment:\n{}\n", report.environment);
  for (const CollectiveRow& row : report.rows) {
    text += fmt::format("\nThe bandwidth of {} of {} over {} ranks, trial by trial ({} warmups):\n\n", name_of(row.op),
                        payload_name(row.bytes), report.ranks, report.warmups);
    text += table_head("trial", "");
    for (std::size_t i = 0; i < row.bandwidth.size(); ++i) {
      const double algbw = row.bandwidth[i];
      text += table_row(std::to_string(i + 1), algbw * bus_factor(row.op, row.ranks), algbw) + "\n";
    }
  }
  if (report.stopped) text += "Stopped: these are the results so far\n";
  answer.say(text + legend(report));
  return answer;
}

Answer answer_of(const LatencyReport& report, int ranks) {
  Answer answer;
  answer.say(fmt::format(
      "One large all_reduce against many small ones of the same {} over {} ranks (3 warmups, median of 5 trials):\n\n",
      payload_name(report.bytes), ranks));
  Table table({{"calls", "calls"},
               {"bytes", "payload"},
               {"seconds", "time", "{:.3f} s"},
               {"busbw", "busbw", "{:.2f}GBps", 1 / giga},
               {"", "busbw", "{:.1f}Gbps", 8 / giga}});
  const auto add = [&](int calls, double seconds) {
    const double busbw = static_cast<double>(report.bytes) / seconds * bus_factor(comm::Collective::all_reduce, ranks);
    const std::int64_t bytes = report.bytes / calls;
    table.row({calls, {bytes, payload_name(bytes)}, seconds, busbw, busbw});
  };
  add(1, report.large);
  add(report.pieces, report.small);
  answer.table("rows", table);
  answer.say(fmt::format("many / one: {:.2f} x the time\n", report.small / report.large));
  return answer;
}

}  // namespace lockstep::lab
