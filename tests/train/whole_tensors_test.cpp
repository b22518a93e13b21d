// Rules that need whole tensors: LARS and Muon against computations in double, and the same bits in every layout.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "support/layout_run.h"
#include "support/saved_run.h"
#include "support/temp_folder.h"
#include "train/optimizer/newton_schulz.h"

namespace lockstep::train {
namespace {

using support::LayoutRun;

const OptimizerSettings muon{.name = "muon", .eps = 1e-3F, .momentum = 0.9F};
const OptimizerSettings lars{.name = "lars", .momentum = 0.9F};

/// A matrix in double.
struct Matrix {
  std::size_t rows, columns;
  std::vector<double> values;
  double& at(std::size_t i, std::size_t j) { return values[i * columns + j]; }
  double at(std::size_t i, std::size_t j) const { return values[i * columns + j]; }
};

Matrix zero(std::size_t rows, std::size_t columns) { return {rows, columns, std::vector<double>(rows * columns)}; }

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c = zero(a.rows, b.columns);
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t k = 0; k < a.columns; ++k) {
      for (std::size_t j = 0; j < b.columns; ++j) c.at(i, j) += a.at(i, k) * b.at(k, j);
    }
  }
  return c;
}

Matrix transposed(const Matrix& a) {
  Matrix t = zero(a.columns, a.rows);
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < a.columns; ++j) t.at(j, i) = a.at(i, j);
  }
  return t;
}

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

// As Keller Jordan's zeropower_via_newtonschulz5 does it: tall matrices are turned.
Matrix orthogonal(Matrix x) {
  if (x.rows > x.columns) return transposed(orthogonal(transposed(x)));
  const double norm = norm_of(x.values);
  for (double& value : x.values) value /= norm;
  for (int i = 0; i < 5; ++i) {
    const Matrix a = product(x, transposed(x)), square = product(a, a);
    Matrix b = a;
    for (std::size_t e = 0; e < b.values.size(); ++e) b.values[e] = -4.7750 * a.values[e] + 2.0315 * square.values[e];
    const Matrix step = product(b, x);
    for (std::size_t e = 0; e < x.values.size(); ++e) x.values[e] = 3.4445 * x.values[e] + step.values[e];
  }
  return x;
}

Matrix random_matrix(std::size_t rows, std::size_t columns, std::uint64_t seed) {
  Matrix x = zero(rows, columns);
  const CounterRng rng(seed, "test.matrix");
  for (std::size_t e = 0; e < x.values.size(); ++e) x.values[e] = static_cast<float>(rng.uniform(e) - 0.5);
  return x;
}

TEST(NewtonSchulz, IsThatOfADoubleOnWideAndTallMatrices) {
  support::Machine machine(2);
  const std::vector<std::pair<std::size_t, std::size_t>> shapes{{7, 7}, {5, 300}, {300, 5}, {64, 48}, {1, 9}, {9, 1}};
  for (const auto& [rows, columns] : shapes) {
    NewtonSchulzMemory memory;
    Tensor matrix;
    Arena arena("test", MemoryKind::workspace);
    const auto r = static_cast<std::int64_t>(rows), c = static_cast<std::int64_t>(columns);
    arena.declare(matrix, "matrix", Shape{r, c}, DType::f32);
    memory.declare(arena, r * c, std::min(r, c));
    Ledger ledger;
    arena.commit(*machine.runtime, ledger);
    const Matrix x = random_matrix(rows, columns, rows), expected = orthogonal(x);
    std::ranges::copy(x.values, elements<float>(matrix).begin());
    orthogonalise(*machine.ops, memory, matrix, 3);
    for (std::size_t e = 0; e < x.values.size(); ++e)
      ASSERT_NEAR(elements<float>(matrix)[e], 3 * expected.values[e], 1e-4) << rows << " x " << columns;
    std::ranges::fill(elements<float>(matrix), 0.0F);
    orthogonalise(*machine.ops, memory, matrix, 3);
    for (const float value : elements<float>(matrix)) ASSERT_EQ(value, 0);
  }
}

/// A parameter's values and what a rule keeps of it, in double.
struct InDouble {
  std::vector<double> weights, first, second;
};

/// Rows of the matrices that a parameter is; none: it is no hidden matrix.
std::vector<std::size_t> matrices_of(const std::string& name, const arch::ModelConfig& model) {
  const auto rows = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  if (name.ends_with("attn.c_attn.weight"))
    return {rows(model.heads * model.head_size), rows(model.kv_heads * model.head_size), rows(model.kv_heads * model.head_size)};
  if (name.ends_with("attn.c_proj.weight") || name.ends_with("mlp.c_proj.weight")) return {rows(model.width)};
  if (!name.ends_with("mlp.c_fc.weight")) return {};
  return model.gated ? std::vector{rows(model.ffn_width), rows(model.ffn_width)} : std::vector{rows(model.ffn_width)};
}

// torch.optim.Muon with adjust_lr_fn="match_rms_adamw", by rows of q, k and v apart:
//   buf.lerp_(g, 1 - momentum); u = g.lerp(buf, momentum)
//   p *= 1 - lr decay; p -= lr 0.2 sqrt(max(rows, columns)) NS(u)
void muon_step(InDouble& kept, const std::vector<double>& gradient, const std::vector<std::size_t>& rows, double rate,
               double decay) {
  const double momentum = static_cast<double>(muon.momentum);
  std::size_t all = 0, first = 0;
  for (const std::size_t n : rows) all += n;
  const std::size_t columns = gradient.size() / all;
  for (const std::size_t n : rows) {
    Matrix u = zero(n, columns);
    for (std::size_t e = 0; e < u.values.size(); ++e) {
      double& buffer = kept.first[first + e];
      buffer += (1 - momentum) * (gradient[first + e] - buffer);
      u.values[e] = gradient[first + e] + momentum * (buffer - gradient[first + e]);
    }
    const Matrix o = orthogonal(u);
    const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(n, columns)));
    for (std::size_t e = 0; e < o.values.size(); ++e) {
      double& w = kept.weights[first + e];
      w = w * (1 - rate * decay) - rate * scale * o.values[e];
    }
    first += n * columns;
  }
}

void adamw_step(InDouble& kept, const std::vector<double>& gradient, double rate, double decay, int step) {
  const double b1 = static_cast<double>(muon.beta1), b2 = static_cast<double>(muon.beta2), eps = static_cast<double>(muon.eps);
  for (std::size_t e = 0; e < gradient.size(); ++e) {
    double &m = kept.first[e], &v = kept.second[e], &w = kept.weights[e];
    m = b1 * m + (1 - b1) * gradient[e];
    v = b2 * v + (1 - b2) * gradient[e] * gradient[e];
    w = w * (1 - rate * decay) - rate * m / (1 - std::pow(b1, step)) / (std::sqrt(v / (1 - std::pow(b2, step))) + eps);
  }
}

// You, Gitman & Ginsburg 2017, algorithm 1, its coefficient a part of the rate.
void lars_step(InDouble& kept, const std::vector<double>& gradient, double rate, double decay) {
  const double weights = norm_of(kept.weights), size = norm_of(gradient);
  const double trust = weights == 0 || size == 0 ? 1 : weights / (size + decay * weights);
  for (std::size_t e = 0; e < gradient.size(); ++e) {
    kept.first[e] = static_cast<double>(lars.momentum) * kept.first[e] + rate * trust * (gradient[e] + decay * kept.weights[e]);
    kept.weights[e] -= kept.first[e];
  }
}

void expect_rule(const arch::ModelConfig& model, const OptimizerSettings& rule, float grad_clip) {
  SCOPED_TRACE(rule.name);
  support::Machine machine(2);
  EngineConfig config = support::tiny_config(model);
  config.optimizer = rule;
  config.grad_clip = grad_clip;
  const auto engine = support::make_engine(config, machine);
  std::map<std::string, InDouble> all;
  for (const support::ParameterState& p : support::parameters_of(*engine)) {
    const std::vector<float> values = support::values_of(p.weight);
    all[p.name] = {{values.begin(), values.end()}, std::vector<double>(values.size()), std::vector<double>(values.size())};
  }
  constexpr double rate = 0.02;
  for (int step = 0; step < 3; ++step) {
    const support::Batches batches(1, 3, 7, 65, static_cast<std::uint64_t>(step));
    const StepResult result = engine->step(batches.all(), batches.targets(), step, rate);
    const double clip = clip_factor(result.gradient_norm, grad_clip);
    for (const support::ParameterState& p : support::parameters_of(*engine)) {
      InDouble& kept = all.at(p.name);
      std::vector<double> gradient;
      for (const float g : support::values_of(p.gradient)) gradient.push_back(clip * static_cast<double>(g));
      const double decay = p.weight.shape.rank() >= 2 ? static_cast<double>(rule.weight_decay) : 0;
      const std::vector<std::size_t> rows = matrices_of(p.name, config.model);
      if (rule.name == "lars") {
        lars_step(kept, gradient, rate, decay);
      } else if (rows.empty()) {
        adamw_step(kept, gradient, rate, decay, step + 1);
      } else {
        muon_step(kept, gradient, rows, rate, decay);
      }
      const std::vector<float> now = support::values_of(p.weight);
      for (std::size_t e = 0; e < now.size(); ++e)
        ASSERT_NEAR(static_cast<double>(now[e]), kept.weights[e], 1e-5) << p.name << " of step " << step;
    }
  }
}

TEST(WholeTensorRules, AreThoseOfAComputationInDouble) {
  for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama()}) {
    for (const OptimizerSettings& rule : {muon, lars}) {
      expect_rule(model, rule, 0);
      expect_rule(model, rule, 0.3F);
    }
  }
}

LayoutRun run_of(const OptimizerSettings& rule, const parallel::WeightStorage& weights = {}) {
  LayoutRun run{.layout = "dp=2,gas=2", .model = support::tiny_llama(), .weights = weights, .optimizer = rule};
  run.model.ffn_width = 42;
  return run;
}

TEST(WholeTensorRules, ZeroLevelsAndPipelinesChangeNoBit) {
  for (const OptimizerSettings& rule : {muon, lars})
    support::expect_bits_of(run_of(rule), {"zero=1", "zero=2", "zero=3", "pp=2", "pp=2,zero=2"});
}

TEST(WholeTensorRules, NoTypeChangesThat) {
  for (const char* name : {"muon", "lars"}) {
    const OptimizerSettings rounded{.name = name, .momentum = 0.9F, .moments = DType::bf16, .rounding = Rounding::stochastic};
    const OptimizerSettings plain{.name = name, .momentum = 0.9F};
    support::expect_bits_of(run_of(plain, support::bf16_with_masters), {"zero=1", "pp=2,zero=3"});
    support::expect_bits_of(run_of(plain, support::bf16_alone), {"zero=1", "pp=2,zero=3"});
    support::expect_bits_of(run_of(rounded, support::bf16_alone), {"zero=2", "pp=2"});
  }
}

TEST(WholeTensorRules, NoRankOfTensorsChangesABitInCanonicalMode) {
  for (const OptimizerSettings& rule : {muon, lars}) {
    LayoutRun run = run_of(rule);
    run.samples = 2;
    run.layout = "gas=4,canonical";
    support::expect_bits_of(run, {"tp=2", "dp=2,gas=2,zero=1", "dp=2,tp=2,gas=2,sequence,zero=3", "cp=2,gas=4,zero=1"});
  }
}

TEST(WholeTensorRules, TensorRanksFollowOneRank) {
  for (const OptimizerSettings& rule : {lars, muon}) {
    LayoutRun run = run_of(rule);
    run.steps = 2;
    support::expect_near_one_rank(support::with(run, "tp=2"), 2e-4);
    support::expect_near_one_rank(support::with(run, "tp=3,zero=2"), 2e-4);
  }
}

TEST(WholeTensorRules, StateThatLiesElsewhereChangesNoBit) {
  const TempFolder disk;
  for (const OptimizerSettings& rule : {muon, lars}) {
    for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters}) {
      LayoutRun run = run_of(rule, weights);
      run.offload.folder = disk.path();
      run.offload.range_elements = 768;
      support::expect_bits_of(run, {"offload_optimizer=nvme", "zero=3,offload_optimizer=cpu,offload_params=nvme"});
    }
  }
}

TEST(WholeTensorRules, RunsGoOnInAnotherLayout) {
  for (const OptimizerSettings& rule : {muon, lars}) {
    const TempFolder folder;
    const support::Saved saved = support::save(support::with(run_of(rule), "zero=3"), folder.path());
    const support::Gone whole = support::resume(run_of(rule), saved.folder);
    for (const char* words : {"zero=1", "pp=2", "pp=2,zero=2"}) {
      const support::Gone gone = support::resume(support::with(run_of(rule), words), saved.folder);
      EXPECT_TRUE(support::same_bits(gone.loaded.slots, saved.state.slots)) << words;
      support::expect_equal(gone.after, whole.after);
    }
  }
}

TEST(WholeTensorRules, TheLedgerNamesTheirMemory) {
  support::Machine machine(1);
  EngineConfig config = support::tiny_config();
  for (const auto& [rule, name] : {std::pair{muon, "directions of matrices"}, std::pair{lars, "squares of tensors"}}) {
    config.optimizer = rule;
    const Ledger ledger = RankMemory(config, {}, {}).ledger(0);
    bool named = false;
    for (const LedgerEntry& entry : ledger.entries()) named = named || entry.name == name;
    EXPECT_TRUE(named) << name;
  }
}

}  // namespace
}  // namespace lockstep::train
