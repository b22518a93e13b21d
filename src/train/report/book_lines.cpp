#include "train/report/book_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/timer.h"

namespace lockstep::train {
namespace {

double per_second(double tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0; }

}  // namespace

TokenRates::Rates TokenRates::mark(double now) {
  const double seconds = now - begun_;
  Rates rates{.interval = per_second(tokens_, seconds)};
  if (counts_) {
    all_tokens_ += tokens_;
    all_seconds_ += seconds;
  }
  rates.average = per_second(all_tokens_, all_seconds_);
  counts_ = true;
  begun_ = now;
  tokens_ = 0;
  return rates;
}

std::string progress_line(const Losses& losses, std::int64_t epoch, const TokenRates::Rates& rates, bool several_ranks) {
  return fmt::format("Ep {}, Step {:06d}, Train: {:.3f}, Val: {:.3f}, Step tok/sec: {}, {}: {}", epoch, losses.step - 1,
                     losses.train, losses.validation, std::llrint(rates.interval),
                     several_ranks ? "Global avg tok/sec" : "Avg tok/sec", std::llrint(rates.average));
}

std::string memory_lines(const MemoryUse& memory) {
  constexpr double gib = 1 << 30;
  return fmt::format("\nAllocated memory: {:.4f} GB\nReserved memory: {:.4f} GB\n", static_cast<double>(memory.kept) / gib,
                     static_cast<double>(memory.committed) / gib);
}

void BookLines::started(const RunState& state) {
  begun_ = state;
  rates_.start(now_seconds());
}

void BookLines::step_done(const Metrics& m) {
  LogLines::step_done(m);
  rates_.add(m.tokens);
}

void BookLines::evaluated(const Losses& losses, double begun) {
  const std::int64_t first_sample = begun_.next_sample + (losses.step - 1 - begun_.step) * epochs_.step;  // of the last step
  const std::int64_t epoch = first_sample / epochs_.length + 1;
  log().plain(progress_line(losses, epoch, rates_.mark(begun), several_ranks_));
}

void BookLines::sampled(const std::optional<std::string>& text) {
  if (text) {
    std::string line = *text;
    std::ranges::replace(line, '\n', ' ');
    log().plain(line);
  }
  log().plain(memory_lines(memory_));
}

}  // namespace lockstep::train
