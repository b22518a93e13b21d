#include "planner/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::planner {
namespace {

constexpr std::int64_t kPositions = 2048, kVocabulary = 51200;

struct Sizes {
  std::string_view parameters;
  std::int64_t heads, width, layers;
};
constexpr Sizes b175{"174.6 B", 96, 12288, 96}, b530{"529.6 B", 128, 20480, 105};

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

PublishedFigure figure(std::string name, const Sizes& sizes, int tp, int pp, int devices, std::int64_t batch) {
  PublishedFigure one;
  one.name = std::move(name);
  one.model = model_of(sizes);
  one.system = megatron;
  one.plan.tp = tp;
  one.plan.pp = pp;
  one.plan.dp = devices / (tp * pp);
  one.plan.ranks_per_host = 8;
  one.plan.recompute = {layout::Recompute::Kind::full, 1};
  one.batch = batch;
  return one;
}

void add_scaling(std::vector<PublishedFigure>& all) {
  struct Row {
    Sizes sizes;
    int tp, pp, devices;
    std::int64_t batch;
    double tflops;
  };
  constexpr std::array<Row, 10> rows{{{{"1.7 B", 24, 2304, 24}, 1, 1, 32, 512, 137},
                                      {{"3.6 B", 32, 3072, 30}, 2, 1, 64, 512, 138},
                                      {{"7.5 B", 32, 4096, 36}, 4, 1, 128, 512, 142},
                                      {{"18.4 B", 48, 6144, 40}, 8, 1, 256, 1024, 135},
                                      {{"39.1 B", 64, 8192, 48}, 8, 2, 512, 1536, 138},
                                      {{"76.1 B", 80, 10240, 60}, 8, 4, 1024, 1792, 140},
                                      {{"145.6 B", 96, 12288, 80}, 8, 8, 1536, 2304, 148},
                                      {{"310.1 B", 128, 16384, 96}, 8, 16, 1920, 2160, 155},
                                      {{"529.6 B", 128, 20480, 105}, 8, 35, 2520, 2520, 163},
                                      {{"1008 B", 160, 25600, 128}, 8, 64, 3072, 3072, 163}}};
  for (const Row& row : rows) {
    PublishedFigure one = figure(fmt::format("2021 table 1, {}, t {}, p {}", row.sizes.parameters, row.tp, row.pp), row.sizes,
                                 row.tp, row.pp, row.devices, row.batch);
    one.any_chunks = true;
    one.tflops = row.tflops;
    all.push_back(std::move(one));
  }
}

void add_zero(std::vector<PublishedFigure>& all) {
  struct Row {
    Sizes sizes;
    int devices;
    std::int64_t samples, batch;
    double tflops;
  };
  constexpr std::array<Row, 6> rows{{{b175, 384, 4, 1536, 144},
                                     {b175, 768, 2, 1536, 88},
                                     {b175, 1536, 1, 1536, 44},
                                     {b530, 640, 4, 2560, 138},
                                     {b530, 1120, 2, 2240, 98},
                                     {b530, 2240, 1, 2240, 48}}};
  for (const Row& row : rows) {
    PublishedFigure one =
        figure(fmt::format("2021 table 2, {}, ZeRO-3", row.sizes.parameters), row.sizes, 1, 1, row.devices, row.batch);
    layout::set_zero_level(one.plan, 3);
    one.system = deepspeed;
    one.samples = row.samples;
    one.tflops = row.tflops;
    all.push_back(std::move(one));
  }
}

void add_pipelines(std::vector<PublishedFigure>& all) {
  struct Row {
    Sizes sizes;
    int pp, devices;
    std::int64_t batch;
    double tflops;
  };
  constexpr std::array<Row, 6> rows{{{b175, 12, 384, 1536, 153},
                                     {b175, 12, 768, 1536, 149},
                                     {b175, 12, 1536, 1536, 141},
                                     {b530, 35, 560, 2240, 171},
                                     {b530, 35, 1120, 2240, 167},
                                     {b530, 35, 2240, 2240, 159}}};
  for (const Row& row : rows) {
    PublishedFigure one = figure(fmt::format("2021 table 2, {}, t 8, p {}", row.sizes.parameters, row.pp), row.sizes, 8, row.pp,
                                 row.devices, row.batch);
    one.samples = 1;
    one.any_chunks = true;
    one.tflops = row.tflops;
    all.push_back(std::move(one));
  }
}

void add_recomputation(std::vector<PublishedFigure>& all) {
  struct Row {
    Sizes sizes;
    int pp, chunks;
    std::int64_t batch, samples;
    double full, selective;
  };
  constexpr std::array<Row, 4> rows{{{{"22 B", 64, 6144, 48}, 1, 1, 4, 4, 1.42, 1.10},
                                     {b175, 8, 3, 64, 1, 18.13, 13.75},
                                     {b530, 35, 3, 280, 1, 49.05, 37.83},
                                     {{"1 T", 160, 25600, 128}, 64, 1, 512, 1, 94.42, 71.49}}};
  for (const Row& row : rows) {
    for (const bool selective : {false, true}) {
      PublishedFigure one = figure(fmt::format("2022 table 5, {}, t 8, p {}, {}", row.sizes.parameters, row.pp,
                                               selective ? "selective + sequence" : "full"),
                                   row.sizes, 8, row.pp, 8 * row.pp, row.batch);
      one.plan.chunks = row.chunks;
      one.plan.sequence = selective;
      if (selective) one.plan.recompute.kind = layout::Recompute::Kind::selective;
      one.samples = row.samples;
      one.seconds = selective ? row.selective : row.full;
      all.push_back(std::move(one));
    }
  }
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
    add_scaling(figures);
    add_zero(figures);
    add_pipelines(figures);
    add_recomputation(figures);
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
