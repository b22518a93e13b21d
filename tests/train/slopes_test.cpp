// The gradients that ranks make together are those of their own loss. They are compared with differences of the loss that the
// same ranks evaluate, with weights moved on all of them. Nothing here is compared with one rank.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "support/layout_run.h"

namespace lockstep::train {
namespace {

using support::LayoutRank;
using support::LayoutResult;
using support::LayoutRun;

/// A direction of length 1 in which every element of a parameter has its part, by the element's place in the whole tensor.
class Direction {
 public:
  Direction(const std::string& name, std::size_t elements, std::uint64_t seed)
      : rng_(seed, name), size_(1 / std::sqrt(static_cast<float>(elements))) {}
  float at(std::int64_t element) const { return rng_.below(2, static_cast<std::uint64_t>(element)) == 0 ? -size_ : size_; }

 private:
  CounterRng rng_;
  float size_;
};

/// visit(this rank's part of the parameter, where it lies in the whole tensor), if the rank has a part.
void visit_parameter(LayoutRank& rank, const std::string& name,
                     const std::function<void(std::span<float>, const layout::Shard&)>& visit) {
  parallel::TrainingState& state = rank.engine().state();
  state.for_each({.changes = true}, [&](const parallel::StateRange& range) {
    for (const layout::PlacedParameter& placed : state.units()[static_cast<std::size_t>(range.unit.value)].parameters) {
      if (placed.info.name != name) continue;
      visit(elements<float>(range.master.flat(placed.offset, placed.shape().elements())), placed.shard);
    }
  });
}

std::vector<float> weights_of(LayoutRank& rank, const std::string& name) {
  std::vector<float> kept;
  visit_parameter(rank, name, [&](std::span<float> mine, const layout::Shard&) { kept.assign(mine.begin(), mine.end()); });
  return kept;
}

/// Sets the rank's part of the parameter to `kept` + h x `direction`.
void move(LayoutRank& rank, const std::string& name, const std::vector<float>& kept, const Direction& direction, float h) {
  visit_parameter(rank, name, [&](std::span<float> mine, const layout::Shard& shard) {
    for (const layout::Rectangle& part : shard.rectangles({0, static_cast<std::int64_t>(mine.size())})) {
      for (std::int64_t i = 0; i < part.rows * part.columns; ++i) {
        const auto own = static_cast<std::size_t>(part.local + i);
        mine[own] = kept[own] + h * direction.at(part.global + i / part.columns * part.stride + i % part.columns);
      }
    }
  });
  rank.engine().weights_changed();
}

/// How fast the step's loss rises along the direction: central differences over h and h / 2, whose errors in h squared cancel.
double slope_along(LayoutRank& rank, const std::string& name, const Direction& direction) {
  const std::vector<float> kept = weights_of(rank, name);
  const auto rise = [&](float h) {
    double ends[2];
    for (const int sign : {0, 1}) {
      move(rank, name, kept, direction, sign == 0 ? -h : h);
      ends[sign] = rank.mean_loss(0);
    }
    return (ends[1] - ends[0]) / (2 * static_cast<double>(h));
  };
  constexpr float h = 0.01F;
  const double wide = rise(h), narrow = rise(h / 2);
  move(rank, name, kept, direction, 0);
  return (4 * narrow - wide) / 3;
}

void expect_slopes_of_the_loss(LayoutRun run) {
  SCOPED_TRACE(testing::Message() << run.layout << (run.model.tied ? " tied" : ""));
  run.grad_clip = 0;
  LayoutResult result;
  support::on_layout(run, [&](LayoutRank& rank) {
    rank.engine().initialise();
    rank.step(0, 0);  // a learning rate of zero leaves the weights where the gradient is taken
    rank.collect(result);
    for (const auto& [name, gradient] : result.gradients) {
      const double size = std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0));
      for (const std::uint64_t seed : {1, 2}) {
        const Direction direction(name, gradient.size(), seed);
        double expected = 0;
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          expected += static_cast<double>(gradient[i]) * direction.at(static_cast<std::int64_t>(i));
        }
        const double found = slope_along(rank, name, direction);
        if (!rank.lead()) continue;
        EXPECT_NEAR(found, expected, 1e-3 * size + 2e-5) << name;
      }
    }
  });
}

/// GPT-2 with biases and a tied head; Llama with fewer key/value heads than heads; norms of heads and windows.
std::vector<arch::ModelConfig> models(std::int64_t layers) {
  std::vector<arch::ModelConfig> all{support::tiny_model(), support::tiny_llama(), support::tiny_qwen3(), support::tiny_gemma()};
  for (arch::ModelConfig& model : all) model.layers = layers;
  return all;
}

TEST(Slopes, OfRanksThatDivideLayers) {
  for (const arch::ModelConfig& model : models(1)) {
    for (const char* layout : {"tp=2", "tp=3", "tp=2,sequence", "tp=3,sequence"})
      expect_slopes_of_the_loss({.layout = layout, .model = model, .samples = 2});
  }
}

TEST(Slopes, OfRanksThatDivideSequences) {
  for (arch::ModelConfig model : models(1)) {
    for (const char* layout : {"cp=2,context=allgather", "cp=2,context=ulysses", "cp=2,context=ring"})
      expect_slopes_of_the_loss({.layout = layout, .model = model, .samples = 2});
    model.block_size = 12;
    model.vocabulary = 9;
    for (const char* layout : {"cp=3,context=allgather", "cp=3,context=ring"})
      expect_slopes_of_the_loss({.layout = layout, .model = model, .samples = 2, .positions = 12, .document_end = 3});
  }
}

TEST(Slopes, OfAPipelineOfFourStages) {
  for (const arch::ModelConfig& model : models(4)) {
    for (const char* layout : {"pp=4,gas=4", "pp=4,gas=4,schedule=zb-h1"})
      expect_slopes_of_the_loss({.layout = layout, .model = model});
  }
}

TEST(Slopes, OfEverythingAtOnce) {
  for (const arch::ModelConfig& model : models(2))
    expect_slopes_of_the_loss({.layout = "tp=2,cp=2,pp=2,context=ring,sequence,schedule=zb-h1,gas=2", .model = model});
}

}  // namespace
}  // namespace lockstep::train
