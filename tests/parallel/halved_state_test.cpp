#include "parallel/zero/halved_state.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "parallel/stores.h"
#include "parallel/zero/gradients.h"
#include "support/machine.h"
#include "support/tiny_model.h"
#include "tensor/bfloat16.h"

namespace lockstep::parallel {
namespace {

/// One rank's state in bf16 with master copies in halves, which visits show whole in ranges of 100 elements.
class Halved : public testing::Test {
 protected:
  static constexpr std::int64_t most = 100;

  Halved() {
    memory_.declare(arena_, arena_);
    slots_.names = {"exp_avg", "exp_avg_sq"};
    slots_.declare(arena_, memory_.units);
    kept_.declare({arena_, arena_, arena_}, memory_.units, {.order = arch::backward_order(map_)});
    arena_.declare(whole_, "whole masters", Shape{most}, DType::f32);
    Ledger ledger;
    arena_.commit(*machine_.runtime, ledger);
    store_ = make_parameter_store(memory_, groups_, *machine_.stream);
    gradients_ = std::make_unique<ZeroGradients>(memory_.units, map_, 1, kept_, GradientGroups{groups_.all(), {}}, *machine_.ops,
                                                 GradientOptions{});
    state_ = std::make_unique<HalvedState>(
        ResidentParts{.parameters = *store_, .gradients = *gradients_, .slots = slots_, .group = groups_.all(), .cut = {}},
        whole_, machine_.ops->elementwise());
  }
  /// A master weight of its own for every element, of more digits than bf16 has.
  static float value(UnitIndex unit, std::int64_t element) {
    return 1.234567F * static_cast<float>(unit.value + 1) + 1e-4F * static_cast<float>(element);
  }
  void fill() {
    state_->for_each({.slots = true, .changes = true}, [&](const StateRange& range) {
      for (std::int64_t i = 0; i < range.range.count; ++i) {
        const std::int64_t element = range.range.first + i;
        elements<float>(range.master)[static_cast<std::size_t>(i)] = value(range.unit, element);
        elements<float>(range.slots[1])[static_cast<std::size_t>(i)] = static_cast<float>(element);
      }
    });
  }

  support::Machine machine_;
  const arch::UnitMap map_ = arch::unit_map(support::tiny_llama());
  Groups groups_{*machine_.world, layout::Mesh({})};
  ParameterMemory memory_{
      arch::units_of(arch::unit_table(support::tiny_llama())), {.type = DType::bf16, .master = true, .halves = true}, {}};
  SlotMemory slots_;
  GradientMemory kept_;
  Tensor whole_;
  Arena arena_{"all", MemoryKind::parameters};
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<GradientStore> gradients_;
  std::unique_ptr<HalvedState> state_;
};

TEST_F(Halved, WholeMastersComeInRangesAndStayToTheBit) {
  fill();
  std::vector<std::int64_t> seen(memory_.units.size());
  state_->for_each({.slots = true}, [&](const StateRange& range) {
    ASSERT_LE(range.range.count, most);
    ASSERT_EQ(range.range.first, seen[static_cast<std::size_t>(range.unit.value)]);
    ASSERT_FALSE(range.low);
    EXPECT_EQ(range.own.first, range.range.first);
    EXPECT_EQ(range.own_slots.count, range.range.count);
    seen[static_cast<std::size_t>(range.unit.value)] += range.range.count;
    for (std::int64_t i = 0; i < range.range.count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const float master = value(range.unit, range.range.first + i);
      ASSERT_EQ(elements<float>(range.master)[at], master);
      ASSERT_EQ(reinterpret_cast<const BFloat16*>(range.published.data)[at], to_halves(master).high);
      ASSERT_EQ(elements<float>(range.slots[1])[at], static_cast<float>(range.range.first + i));
    }
  });
  for (std::size_t u = 0; u < seen.size(); ++u) EXPECT_EQ(seen[u], memory_.units[u].elements);
}

TEST_F(Halved, WhoAsksForHalvesGetsThemAUnitAtATime) {
  fill();
  std::size_t visits = 0;
  state_->for_each({.slots = true, .changes = true, .halves = true}, [&](const StateRange& range) {
    ++visits;
    ASSERT_FALSE(range.master);
    ASSERT_EQ(range.low.elements(), range.range.count);
    const float first = value(range.unit, 0);
    EXPECT_EQ(elements<std::uint16_t>(range.low)[0], to_halves(first).low);
    EXPECT_EQ(reinterpret_cast<const BFloat16*>(range.published.data)[0], to_halves(first).high);
  });
  EXPECT_EQ(visits, memory_.units.size());
}

// Such as a save that goes on while the run does.
TEST_F(Halved, WhoWatchesChangesGetsWholeMasters) {
  struct Watcher : ChangeWatcher {
    void before_change(const StateRange& range) override {
      whole = whole && range.master && !range.low;
      elements += range.range.count;
    }
    bool whole = true;
    std::int64_t elements = 0;
  } watcher;
  fill();
  state_->watch(&watcher);
  std::int64_t elements = 0;
  state_->for_each({.slots = true, .changes = true, .halves = true}, [&](const StateRange& range) {
    EXPECT_TRUE(range.master);
    elements += range.range.count;
  });
  EXPECT_TRUE(watcher.whole);
  EXPECT_EQ(watcher.elements, elements);
  state_->watch(nullptr);
}

TEST_F(Halved, WeightsAreWholeDuringVisitsAlone) {
  EXPECT_FALSE(state_->stays({}));
  EXPECT_TRUE(state_->stays({.weights = false, .gradients = true, .slots = true}));
}

}  // namespace
}  // namespace lockstep::parallel
