#include "train/report/progress.h"

#include <fmt/format.h>

#include <cmath>

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

std::string progress_line(const Progress& p) {
  return fmt::format("Ep {}, Step {:06d}, Train: {:.3f}, Val: {:.3f}, Step tok/sec: {}, {}: {}", p.epoch, p.step, p.train_loss,
                     p.val_loss, std::llrint(p.rates.interval), p.several_ranks ? "Global avg tok/sec" : "Avg tok/sec",
                     std::llrint(p.rates.average));
}

std::string memory_lines(const MemoryUse& memory) {
  constexpr double gib = 1 << 30;
  return fmt::format("\nAllocated memory: {:.4f} GB\nReserved memory: {:.4f} GB\n", static_cast<double>(memory.kept) / gib,
                     static_cast<double>(memory.committed) / gib);
}

}  // namespace lockstep::train
