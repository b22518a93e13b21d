#include "planner/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep::planner {
namespace {

constexpr std::int64_t kPositions = 2048, kVocabulary = 51200;

struct Sizes {
  std::string_view parameters;
  std::int64_t heads, width, layers;
};
constexpr Sizes b175{"174.6 B", 96, 12288, 96}, b530{"529.6 B", 128, 20480, 105}, b22{"22 B", 64, 6144, 48},
    b1000{"1 T", 160, 25600, 128};

enum class Table : std::uint8_t { of_sizes, of_zero, of_pipelines, of_full_recomputation, of_selective_recomputation };

struct Row {
  Table table;
  Sizes sizes;
  int tp, pp, devices;
  std::int64_t batch, samples;  ///< samples of a micro-batch; 0: not published
  int chunks;                   ///< virtual stages; 0: not published
  double measured;              ///< TFLOPS of a device; of recomputation: seconds of a step
};
using enum Table;
constexpr Row rows[] = {
    {of_sizes, {"1.7 B", 24, 2304, 24}, 1, 1, 32, 512, 0, 0, 137},
    {of_sizes, {"3.6 B", 32, 3072, 30}, 2, 1, 64, 512, 0, 0, 138},
    {of_sizes, {"7.5 B", 32, 4096, 36}, 4, 1, 128, 512, 0, 0, 142},
    {of_sizes, {"18.4 B", 48, 6144, 40}, 8, 1, 256, 1024, 0, 0, 135},
    {of_sizes, {"39.1 B", 64, 8192, 48}, 8, 2, 512, 1536, 0, 0, 138},
    {of_sizes, {"76.1 B", 80, 10240, 60}, 8, 4, 1024, 1792, 0, 0, 140},
    {of_sizes, {"145.6 B", 96, 12288, 80}, 8, 8, 1536, 2304, 0, 0, 148},
    {of_sizes, {"310.1 B", 128, 16384, 96}, 8, 16, 1920, 2160, 0, 0, 155},
    {of_sizes, b530, 8, 35, 2520, 2520, 0, 0, 163},
    {of_sizes, {"1008 B", 160, 25600, 128}, 8, 64, 3072, 3072, 0, 0, 163},
    {of_zero, b175, 1, 1, 384, 1536, 4, 1, 144},
    {of_zero, b175, 1, 1, 768, 1536, 2, 1, 88},
    {of_zero, b175, 1, 1, 1536, 1536, 1, 1, 44},
    {of_zero, b530, 1, 1, 640, 2560, 4, 1, 138},
    {of_zero, b530, 1, 1, 1120, 2240, 2, 1, 98},
    {of_zero, b530, 1, 1, 2240, 2240, 1, 1, 48},
    {of_pipelines, b175, 8, 12, 384, 1536, 1, 0, 153},
    {of_pipelines, b175, 8, 12, 768, 1536, 1, 0, 149},
    {of_pipelines, b175, 8, 12, 1536, 1536, 1, 0, 141},
    {of_pipelines, b530, 8, 35, 560, 2240, 1, 0, 171},
    {of_pipelines, b530, 8, 35, 1120, 2240, 1, 0, 167},
    {of_pipelines, b530, 8, 35, 2240, 2240, 1, 0, 159},
    {of_full_recomputation, b22, 8, 1, 8, 4, 4, 1, 1.42},
    {of_selective_recomputation, b22, 8, 1, 8, 4, 4, 1, 1.10},
    {of_full_recomputation, b175, 8, 8, 64, 64, 1, 3, 18.13},
    {of_selective_recomputation, b175, 8, 8, 64, 64, 1, 3, 13.75},
    {of_full_recomputation, b530, 8, 35, 280, 280, 1, 3, 49.05},
    {of_selective_recomputation, b530, 8, 35, 280, 280, 1, 3, 37.83},
    {of_full_recomputation, b1000, 8, 64, 512, 512, 1, 1, 94.42},
    {of_selective_recomputation, b1000, 8, 64, 512, 512, 1, 1, 71.49},
};

arch::ModelConfig model_of(const Sizes& sizes) {
  arch::ModelConfig model;
  model.layers = sizes.layers;
  model.heads = model.kv_heads = sizes.heads;
  model.width = sizes.width;
  model.head_size = sizes.width / sizes.heads;
  model.ffn_width = 4 * sizes.width;
  model.block_size = kPositions;
  model.vocabulary = kVocabulary;
  model.activation = arch::ActivationKind::gelu_tanh;
  model.bias = model.qkv_bias = true;
  model.dropout = 0.1F;
  return model;
}

PublishedFigure figure_of(const Row& row) {
  constexpr std::string_view names[] = {"2021 table 1", "2021 table 2", "2021 table 2", "2022 table 5", "2022 table 5"},
                             ways[] = {"", "", "", ", full", ", selective + sequence"};
  const auto table = static_cast<std::size_t>(row.table);
  const bool zero = row.table == of_zero, selective = row.table == of_selective_recomputation,
             timed = selective || row.table == of_full_recomputation;
  PublishedFigure one;
  one.name = fmt::format("{}, {}, {}{}", names[table], row.sizes.parameters,
                         zero ? "ZeRO-3" : fmt::format("t {}, p {}", row.tp, row.pp), ways[table]);
  one.model = model_of(row.sizes);
  one.system = zero ? deepspeed : megatron;
  one.plan.tp = row.tp;
  one.plan.pp = row.pp;
  one.plan.dp = row.devices / (row.tp * row.pp);
  one.plan.ranks_per_host = 8;
  one.plan.chunks = std::max(row.chunks, 1);
  one.plan.sequence = selective;
  one.plan.recompute = {selective ? layout::Recompute::Kind::selective : layout::Recompute::Kind::full, 1};
  if (zero) layout::set_zero_level(one.plan, 3);
  one.batch = row.batch;
  one.samples = row.samples;
  one.any_chunks = row.chunks == 0;
  (timed ? one.seconds : one.tflops) = row.measured;
  return one;
}

/// FLOPs of a step with every forward pass made again (Narayanan et al. 2021, equation 3).
double counted_flops(const PublishedFigure& one) {
  const auto s = static_cast<double>(kPositions), l = static_cast<double>(one.model.layers),
             h = static_cast<double>(one.model.width), v = static_cast<double>(kVocabulary);
  return 96 * static_cast<double>(one.batch) * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
}

/// TFLOPS of a device in a step of `seconds`.
double tflops_of(const PublishedFigure& one, double seconds) { return counted_flops(one) / seconds / one.plan.ranks() / 1e12; }

Candidate candidate_of(const PublishedFigure& one, std::int64_t samples, int chunks) {
  Candidate candidate{one.plan, samples};
  candidate.plan.microbatches = static_cast<int>(one.batch / (one.plan.dp * samples));
  candidate.plan.chunks = chunks;
  candidate.plan.schedule = chunks > 1 ? "interleaved" : "1f1b";
  return candidate;
}

/// Everything that the published layout may have been.
std::vector<Candidate> candidates_of(const PublishedFigure& one) {
  std::vector<Candidate> candidates;
  for (const std::int64_t samples : {1, 2, 4, 8}) {
    if (one.samples != 0 && samples != one.samples) continue;
    if (one.batch % (one.plan.dp * samples) != 0) continue;
    const std::int64_t blocks = one.model.layers / one.plan.pp;
    if (!one.any_chunks) {
      candidates.push_back(candidate_of(one, samples, one.plan.chunks));
      continue;
    }
    for (int chunks = 1; chunks <= (one.plan.pp == 1 ? 1 : blocks); ++chunks) {
      const Candidate candidate = candidate_of(one, samples, chunks);
      const bool whole_groups = chunks == 1 || candidate.plan.microbatches % candidate.plan.pp == 0;
      if (blocks % chunks == 0 && whole_groups) candidates.push_back(candidate);
    }
  }
  return candidates;
}

Prediction predict(const PublishedFigure& one, const Machine& machine) {
  Prediction best{&one, {}, 0, one.seconds > 0 ? one.seconds : one.tflops, 0};
  Machine used = machine;
  used.nodes = std::max<std::int64_t>(1, one.plan.ranks() / machine.devices);
  const Work work{one.model, kPositions, used, one.system};
  for (const Candidate& candidate : candidates_of(one)) {
    const double seconds = step_time(work, candidate).total();
    if (best.seconds > 0 && seconds >= best.seconds) continue;
    best.seconds = seconds;
    best.candidate = candidate;
  }
  best.predicted = one.seconds > 0 ? best.seconds : tflops_of(one, best.seconds);
  return best;
}

const PublishedFigure& fitted_figure(std::string_view part, int ranks) {
  return *std::ranges::find_if(published_figures(), [&](const PublishedFigure& one) {
    return one.name.find(part) != std::string::npos && one.plan.ranks() == ranks;
  });
}

/// The value of `share`, between 0 and 1, at which the figure is met: more is faster.
void fit(double Machine::* share, Machine& machine, const PublishedFigure& one) {
  double low = 0.01, high = 1;
  for (int i = 0; i < 40; ++i) {
    machine.*share = (low + high) / 2;
    (predict(one, machine).error() < 0 ? low : high) = machine.*share;
  }
}

}  // namespace

const std::vector<PublishedFigure>& published_figures() {
  static const std::vector<PublishedFigure> all = [] {
    std::vector<PublishedFigure> figures;
    for (const Row& row : rows) figures.push_back(figure_of(row));
    return figures;
  }();
  return all;
}

std::vector<Prediction> predict_published(const Machine& machine) {
  std::vector<Prediction> all;
  for (const PublishedFigure& one : published_figures()) all.push_back(predict(one, machine));
  return all;
}

Machine fitted_machine() {
  Machine machine = *find_machine("a100");
  for (int i = 0; i < 8; ++i) {  // each hardly depends on the other
    fit(&Machine::product_share, machine, fitted_figure("7.5 B", 128));
    fit(&Machine::link_share, machine, fitted_figure("174.6 B, ZeRO-3", 1536));
  }
  return machine;
}

SingleRate best_single_rate(double tolerance) {
  const auto rate_of = [](const PublishedFigure& one) { return one.tflops > 0 ? one.tflops : tflops_of(one, one.seconds); };
  SingleRate best{0, 0};
  for (double rate = 10; rate <= 312; rate += 0.5) {
    const auto within = std::ranges::count_if(
        published_figures(), [&](const PublishedFigure& one) { return std::abs(rate / rate_of(one) - 1) <= tolerance; });
    if (within > best.within) best = {rate, static_cast<int>(within)};
  }
  return best;
}

}  // namespace lockstep::planner
