// Adapters: what is trained beside a model that stays as it is, in every layout.

#include "arch/adapter.h"

#include <gtest/gtest.h>

#include "support/layout_run.h"

namespace lockstep::train {
namespace {

using support::LayoutRank;
using support::LayoutResult;
using support::LayoutRun;
using support::Values;

arch::ModelConfig adapted(arch::ModelConfig model, const char* targets = "all") {
  model.adapter = {.rank = 4, .alpha = 6, .targets = *arch::adapter_targets(targets)};
  return model;
}

/// Separate matrices for q, k and v, beside one for all of them; some without an adapter.
std::vector<arch::ModelConfig> adapted_models() {
  return {adapted(support::tiny_model()), adapted(support::tiny_llama()), adapted(support::tiny_gemma()),
          adapted(support::tiny_qwen2(), "q,v,down"), adapted(support::tiny_model(), "mlp")};
}

/// Calls use(name, values) for what the rank has of each parameter, all of it.
void for_each_parameter(LayoutRank& rank, const std::function<void(const std::string&, std::span<float>)>& use) {
  parallel::TrainingState& state = rank.engine().state();
  state.for_each({.changes = true}, [&](const parallel::StateRange& range) {
    for (const layout::PlacedParameter& placed : state.units()[static_cast<std::size_t>(range.unit.value)].parameters)
      use(placed.info.name, elements<float>(range.master.flat(placed.offset - range.range.first, placed.shape().elements())));
  });
}

/// Values that are no start values, the same for the same name.
void draw(const std::string& name, std::span<float> values) {
  const CounterRng rng(7, name);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.4F * (static_cast<float>(rng.uniform(i)) - 0.5F);
}

struct Trained {
  Values weights;  ///< at the start
  LayoutResult after;
};

/// The gradients of a step; `set` changes the start values.
Trained step_of(const LayoutRun& run, const std::function<void(const std::string&, std::span<float>)>& set) {
  Trained result;
  support::on_layout(run, [&](LayoutRank& rank) {
    rank.engine().initialise();
    for_each_parameter(rank, [&](const std::string& name, std::span<float> values) {
      set(name, values);
      result.weights[name].assign(values.begin(), values.end());
    });
    rank.engine().weights_changed();
    support::take_steps(rank, 0, 1, result.after);
    rank.collect(result.after);
  });
  return result;
}

bool is_adapter(const std::string& name) { return name.find(".lora_") != std::string::npos; }

/// A layer y = x (W + s B A)^T has the gradients dA = s B^T dW and dB = s dW A^T.
TEST(Adapter, GradientsAreThoseOfTheMergedMatrixProjected) {
  for (const arch::ModelConfig& model : adapted_models()) {
    const LayoutRun run{.layout = "gas=2", .model = model, .optimizer = support::smooth, .grad_clip = 0, .steps = 1};
    const Trained with = step_of(run, [](const std::string& name, std::span<float> values) {
      if (is_adapter(name)) draw(name, values);
    });
    LayoutRun whole = run;
    whole.model.adapter = {};
    const std::vector<arch::AdapterSite> sites = arch::adapter_sites(model, arch::whole_dims(model));
    const auto rank = static_cast<std::size_t>(model.adapter.rank);
    const double scale = model.adapter.scale();
    const auto beside = [&](std::size_t layer, const arch::AdapterSite& site, const char* which) {
      const bool mlp = site.matrix == arch::Role::up_weight || site.matrix == arch::Role::down_weight;
      return "transformer.h." + std::to_string(layer) + (mlp ? ".mlp." : ".attn.") + std::string(site.name) + which;
    };
    const auto matrix = [&](std::size_t layer, arch::Role role) {
      const std::string block = "transformer.h." + std::to_string(layer);
      return block + (role == arch::Role::qkv_weight             ? ".attn.c_attn.weight"
                      : role == arch::Role::attention_out_weight ? ".attn.c_proj.weight"
                      : role == arch::Role::up_weight            ? ".mlp.c_fc.weight"
                                                                 : ".mlp.c_proj.weight");
    };
    const auto layers = static_cast<std::size_t>(model.layers);
    const Trained merged = step_of(whole, [&](const std::string& name, std::span<float> values) {
      for (std::size_t layer = 0; layer < layers; ++layer) {
        for (const arch::AdapterSite& site : sites) {
          if (name != matrix(layer, site.matrix)) continue;
          const std::vector<float>& a = with.weights.at(beside(layer, site, ".lora_A.weight"));
          const std::vector<float>& b = with.weights.at(beside(layer, site, ".lora_B.weight"));
          const std::size_t columns = a.size() / rank, first = static_cast<std::size_t>(site.rows.first);
          for (std::size_t i = 0; i < b.size() / rank; ++i) {
            for (std::size_t j = 0; j < columns; ++j) {
              double sum = 0;
              for (std::size_t k = 0; k < rank; ++k) sum += static_cast<double>(b[i * rank + k]) * a[k * columns + j];
              values[(first + i) * columns + j] += static_cast<float>(scale * sum);
            }
          }
        }
      }
    });
    EXPECT_NEAR(with.after.losses[0], merged.after.losses[0], 1e-5 * merged.after.losses[0]);
    Values wanted;
    for (std::size_t layer = 0; layer < layers; ++layer) {
      for (const arch::AdapterSite& site : sites) {
        const std::vector<float>& a = with.weights.at(beside(layer, site, ".lora_A.weight"));
        const std::vector<float>& b = with.weights.at(beside(layer, site, ".lora_B.weight"));
        const std::vector<float>& d = merged.after.gradients.at(matrix(layer, site.matrix));
        const std::size_t columns = a.size() / rank, rows = b.size() / rank, first = static_cast<std::size_t>(site.rows.first);
        std::vector<float>& da = wanted[beside(layer, site, ".lora_A.weight")];
        std::vector<float>& db = wanted[beside(layer, site, ".lora_B.weight")];
        da.assign(a.size(), 0);
        db.assign(b.size(), 0);
        for (std::size_t i = 0; i < rows; ++i) {
          for (std::size_t k = 0; k < rank; ++k) {
            for (std::size_t j = 0; j < columns; ++j) {
              const float gradient = static_cast<float>(scale) * d[(first + i) * columns + j];
              da[k * columns + j] += gradient * b[i * rank + k];
              db[i * rank + k] += gradient * a[k * columns + j];
            }
          }
        }
      }
    }
    support::expect_near(with.after.gradients, wanted, 2e-5);
  }
}

TEST(Adapter, TheModelItselfStaysAsItIs) {
  const LayoutRun run{.model = adapted(support::tiny_llama())};
  Values before;
  support::on_layout(run, [&](LayoutRank& rank) {
    rank.engine().initialise();
    for_each_parameter(
        rank, [&](const std::string& name, std::span<float> values) { before[name].assign(values.begin(), values.end()); });
    LayoutResult result;
    support::take_steps(rank, 0, 3, result);
    for_each_parameter(rank, [&](const std::string& name, std::span<float> values) {
      const bool same = std::ranges::equal(values, before.at(name));
      EXPECT_EQ(same, !is_adapter(name)) << name;
    });
  });
}

TEST(Adapter, CutAndOffloadedStateAndRecomputationChangeNoBit) {
  for (const arch::ModelConfig& model : adapted_models()) {
    for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters, support::bf16_alone}) {
      support::expect_bits_of(
          {.layout = "dp=3,gas=2", .model = model, .weights = weights},
          {"zero=1", "zero=2", "zero=3", "zero=3,recompute=full", "recompute=selective", "offload_optimizer=cpu",
           "bucket=1,overlap=false", "zero=3,offload_params=cpu,offload_optimizer=cpu,offload_activations=cpu"});
      support::expect_bits_of({.layout = "dp=3,gas=2,reduce=microbatch", .model = model, .weights = weights},
                              {"zero=3,prefetch=2"});
    }
  }
}

TEST(Adapter, StagesOfAPipelineChangeNoBit) {
  for (const arch::ModelConfig& model : adapted_models()) {
    support::expect_bits_of({.layout = "gas=4", .model = model}, {"pp=2", "pp=2,schedule=zb-h1", "pp=2,recompute=full"});
    support::expect_bits_of({.layout = "dp=2,gas=4", .model = model}, {"pp=2,zero=3", "pp=2,schedule=zb-h1,zero=1"});
  }
}

TEST(Adapter, RanksThatDivideLayersOrPositionsLearnWhatOneLearns) {
  for (const arch::ModelConfig& model : adapted_models()) {
    for (const char* ranks : {"tp=2", "tp=2,sequence", "tp=3,sequence", "cp=2", "cp=2,context=ring", "dp=2,tp=2,gas=2,zero=3",
                              "tp=2,pp=2,gas=2,sequence", "tp=2,cp=2"}) {
      support::expect_near_one_rank({.layout = ranks, .model = model, .optimizer = support::smooth, .samples = 2, .steps = 4},
                                    2e-5);
    }
  }
}

// Slots, gradients and masters are those of adapters alone.
TEST(Adapter, MemoryOfATrainingIsThatOfTheModelAndOfLittleMore) {
  const auto bytes = [](const arch::ModelConfig& model, const parallel::WeightStorage& weights, MemoryKind kind) {
    const LayoutRun run{.model = model, .weights = weights};
    return RankMemory(run.config(), {}).ledger(0).total(kind);
  };
  const arch::ModelConfig model = support::tiny_llama(), with = adapted(model);
  const std::int64_t trained = arch::count_parameters(with).trained;
  for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters}) {
    EXPECT_LT(bytes(with, weights, MemoryKind::gradients), 4 * trained + 4096);
    EXPECT_LT(bytes(with, weights, MemoryKind::optimizer), 12 * trained + 8192);
  }
}

}  // namespace
}  // namespace lockstep::train
