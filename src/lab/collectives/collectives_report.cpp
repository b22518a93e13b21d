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

// What formulas say beside what was measured: of broadcasts, and of networks.
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

}  // namespace

std::string to_text(const CollectiveReport& report) {
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
  text += formulas(report) + legend(report);
  return report.rows.size() > 1 ? text + "\n" + busbw_plot(report) : text;
}

std::string to_stability_text(const CollectiveReport& report) {
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
  return text + legend(report);
}

std::string to_text(const LatencyReport& report, int ranks) {
  const auto line = [&](std::string_view name, std::int64_t bytes, double seconds) {
    const double algbw = static_cast<double>(report.bytes) / seconds;
    return fmt::format("| {:>7} x {:>9} | {:9.3f} s | {:6.2f}GBps | {:7.1f}Gbps |\n", name, payload_name(bytes), seconds,
                       algbw * bus_factor(comm::Collective::all_reduce, ranks) / giga,
                       8 * algbw * bus_factor(comm::Collective::all_reduce, ranks) / giga);
  };
  return fmt::format(
             "One large all_reduce against many small ones of the same {} over {} ranks (3 warmups, median of 5 trials):\n\n"
             "| {:>19} |    time     |    busbw   |    busbw    |\n"
             "| ------------------: | ----------: | ---------: | ----------: |\n",
             payload_name(report.bytes), ranks, "calls x payload") +
         line("1", report.bytes, report.large) + line(std::to_string(report.pieces), report.bytes / report.pieces, report.small) +
         fmt::format("many / one: {:.2f} x the time\n", report.small / report.large);
}

Json to_json(const CollectiveRow& row, std::string_view peer) {
  const auto rounded = [](double value, double digits) { return std::round(value * digits) / digits; };
  const double seconds = row.median_seconds(), algbw = static_cast<double>(row.bytes) / seconds / giga;
  return Json::Object{{"peer", peer},
                      {"op", name_of(row.op)},
                      {"ranks", row.ranks},
                      {"bytes", row.bytes},
                      {"us", rounded(1e6 * seconds, 10)},
                      {"algbw", rounded(algbw, 1000)},
                      {"busbw", rounded(algbw * bus_factor(row.op, row.ranks), 1000)},
                      {"trials", static_cast<std::int64_t>(row.slowest.size())}};
}

}  // namespace lockstep::lab
