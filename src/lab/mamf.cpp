#include "lab/mamf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>

#include "base/checked.h"
#include "base/median.h"
#include "base/timer.h"
#include "base/units.h"
#include "device/team.h"
#include "ops/open_ops.h"
#include "tensor/bfloat16.h"

namespace lockstep::lab {
namespace {

constexpr std::size_t flushed_bytes = std::size_t{256} << 20;
constexpr int least_trials = 3;

double flops(const MamfRow& row) {
  return 2.0 * static_cast<double>(row.m) * static_cast<double>(row.n) * static_cast<double>(row.k);
}

// A statistic over the calls of a shape.
struct Figure {
  std::string_view name;
  double (MamfRow::*of)() const;
};
constexpr Figure figures[] = {{"mean", &MamfRow::mean}, {"median", &MamfRow::median}, {"max", &MamfRow::max}};

std::string shape_of(const MamfRow& row) { return fmt::format("{}x{}x{}", row.m, row.n, row.k); }

class Finder {
 public:
  Finder(Runtime& runtime, const MamfOptions& options)
      : runtime_(runtime),
        options_(options),
        stream_(runtime.make_stream()),
        ops_(ops::make_ops(runtime, *stream_, {.cpu = {.isa = options.isa}})),
        flushed_(runtime.memory().allocate(flushed_bytes)) {
    const auto most = [](const std::vector<std::int64_t>& sizes) { return std::ranges::max(sizes); };
    const std::int64_t m = most(options.m), n = most(options.n), k = most(options.k);
    x_ = allocate(multiply(m, k));
    w_ = allocate(multiply(n, k));
    y_ = allocate(multiply(m, n));
    fill(x_);
    fill(w_);
  }

  MamfRow measure(std::int64_t m, std::int64_t n, std::int64_t k, double seconds) {
    const Tensor x = matrix(x_, m, k), w = matrix(w_, n, k), y = matrix(y_, m, n);
    MamfRow row{m, n, k, {}};
    const double start = now_seconds();
    for (int i = 0; i < options_.warmups && (i == 0 || now_seconds() - start < seconds / 4); ++i) ops_->linear().forward(y, x, w);
    for (int i = 0; i < options_.trials && (i < least_trials || now_seconds() - start < seconds); ++i) {
      reset(y);
      const double began = now_seconds();
      ops_->linear().forward(y, x, w);
      stream_->synchronize();
      row.seconds.push_back(now_seconds() - began);
    }
    return row;
  }

 private:
  std::size_t element_bytes() const { return options_.type == DType::bf16 ? 2 : 4; }
  Memory allocate(std::int64_t elements) {
    return runtime_.memory().allocate(static_cast<std::size_t>(elements) * element_bytes());
  }
  Tensor matrix(const Memory& memory, std::int64_t rows, std::int64_t columns) const {
    Tensor tensor;
    tensor.data = memory.data();
    tensor.shape = {rows, columns};
    tensor.dtype = options_.type;
    return tensor;
  }
  // Fills memory with small numbers, different ones every time.
  void fill(std::byte* data, std::size_t bytes) {
    constexpr std::size_t tile = std::size_t{1} << 18;
    runtime_.team().for_each(static_cast<std::int64_t>((bytes + tile - 1) / tile), [&](std::int64_t i, int) {
      const std::size_t first = static_cast<std::size_t>(i) * tile, size = std::min(tile, bytes - first);
      const auto value = [&](std::size_t at) {
        return static_cast<float>((at + static_cast<std::size_t>(turn_)) % 61) * 0.001F - 0.03F;
      };
      if (options_.type == DType::bf16) {
        auto* const to = reinterpret_cast<BFloat16*>(data + first);
        for (std::size_t at = 0; at < size / 2; ++at) to[at] = to_bfloat16(value(at));
      } else {
        auto* const to = reinterpret_cast<float*>(data + first);
        for (std::size_t at = 0; at < size / 4; ++at) to[at] = value(at);
      }
    });
    ++turn_;
  }
  void fill(Memory& memory) { fill(memory.data(), memory.size()); }
  // Flushes the operands from the caches, and fills the result anew.
  void reset(const Tensor& y) {
    constexpr std::int64_t tile = std::int64_t{1} << 20;
    runtime_.team().for_each(static_cast<std::int64_t>(flushed_bytes) / tile,
                             [&](std::int64_t i, int) { std::fill_n(flushed_.data() + i * tile, tile, std::byte{0}); });
    fill(y.data, y.bytes());
  }

  Runtime& runtime_;
  const MamfOptions& options_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<ops::Ops> ops_;
  Memory flushed_, x_, w_, y_;
  std::int64_t turn_ = 0;
};

double arithmetic_mean(const std::vector<MamfRow>& rows, const Figure& figure) {
  double sum = 0;
  for (const MamfRow& row : rows) sum += (row.*figure.of)();
  return sum / static_cast<double>(rows.size());
}

double geometric_mean(const std::vector<MamfRow>& rows, const Figure& figure) {
  double logs = 0;
  for (const MamfRow& row : rows) logs += std::log((row.*figure.of)());
  return std::exp(logs / static_cast<double>(rows.size()));
}

const MamfRow& best(const std::vector<MamfRow>& rows, const Figure& figure) {
  return *std::ranges::max_element(rows, {}, figure.of);
}

/// The best of each figure, and the means over all shapes.
std::string best_outcomes(const MamfReport& report) {
  constexpr double tera = 1e-12;
  std::string text;
  for (const Figure& figure : figures) {
    const MamfRow& row = best(report.rows, figure);
    text += fmt::format("{:<8}{:.4f} TFLOPS @ {}\n", fmt::format("{}:", figure.name), tera * (row.*figure.of)(), shape_of(row));
  }
  const auto mean_line = [&](std::string_view name, double (*mean_of)(const std::vector<MamfRow>&, const Figure&)) {
    text += fmt::format("{} mean over shapes:", name);
    for (const Figure& figure : figures) text += fmt::format(" {:.4f}({})", tera * mean_of(report.rows, figure), figure.name);
    text += "\n";
  };
  mean_line("arithmetic", arithmetic_mean);
  mean_line("geometric", geometric_mean);
  return text + fmt::format("Elapsed time: {}\ntrain.peak_tflops={:.4f} makes the best median what MFU is a part of\n",
                            format_seconds(report.elapsed), tera * best(report.rows, figures[1]).median());
}

}  // namespace

double MamfRow::mean() const {
  return flops(*this) * static_cast<double>(seconds.size()) / std::accumulate(seconds.begin(), seconds.end(), 0.0);
}
double MamfRow::median() const { return flops(*this) / median_of(seconds); }
double MamfRow::max() const { return flops(*this) / std::ranges::min(seconds); }

MamfReport find_mamf(Runtime& runtime, const MamfOptions& options) {
  MamfReport report{.rows = {}, .type = options.type, .threads = runtime.team().size()};
  const double started = now_seconds();
  const double each = options.seconds / static_cast<double>(options.m.size() * options.n.size() * options.k.size());
  Finder finder(runtime, options);
  for (const std::int64_t m : options.m) {
    for (const std::int64_t n : options.n) {
      for (const std::int64_t k : options.k) {
        if (options.stopped && options.stopped()) {
          report.stopped = true;
          break;
        }
        report.rows.push_back(finder.measure(m, n, k, each));
        if (options.progress) options.progress(report.rows.back());
      }
    }
  }
  report.elapsed = now_seconds() - started;
  return report;
}

Answer answer_of(const MamfReport& report) {
  constexpr double tera = 1e-12;
  Answer answer;
  answer.facts(
      {{"dtype", report.type == DType::bf16 ? "bf16" : "fp32"}, {"threads", report.threads}, {"stopped", report.stopped}});
  answer.say(
      fmt::format("{} products (MxNxK), {} threads, TFLOPS\n\n", report.type == DType::bf16 ? "bf16" : "fp32", report.threads));
  Table table({{"", "#"},
               {"", "shape"},
               {"m", "", ""},
               {"n", "", ""},
               {"k", "", ""},
               {"trials", "", ""},
               {"mean_flops", "mean", "{:.4f}", tera},
               {"median_flops", "median", "{:.4f}", tera},
               {"max_flops", "max", "{:.4f}", tera},
               {"", "best mean", "{:.4f}", tera},
               {"", "best median", "{:.4f}", tera},
               {"", "best max", "{:.4f}", tera}});
  std::array<double, std::size(figures)> most{};
  int number = 0;
  for (const MamfRow& row : report.rows) {
    for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], (row.*figures[i].of)());
    table.row({++number, shape_of(row), row.m, row.n, row.k, std::ssize(row.seconds), row.mean(), row.median(), row.max(),
               most[0], most[1], most[2]});
  }
  answer.table("rows", table);
  if (report.stopped) answer.say("Stopped: these are the results so far\n");
  answer.say(fmt::format("\nTried {} shapes => the best outcomes were:\n", report.rows.size()));
  answer.say(report.rows.empty() ? "none\n" : best_outcomes(report));
  return answer;
}

}  // namespace lockstep::lab
