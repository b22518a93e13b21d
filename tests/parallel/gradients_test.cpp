#include "parallel/zero/gradients.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "comm/thread/thread_world.h"
#include "support/machine.h"
#include "support/tiny_model.h"

namespace lockstep::parallel {
namespace {

constexpr int microbatches = 4;

struct Order {
  layout::ReduceEvery reduce = layout::ReduceEvery::microbatch;
  int open = 1;  ///< micro-batches at a time: each is closed when so many are open
  std::int64_t bucket_bytes = 1;
};

/// Rank 0's gradients of all units on two ranks.
std::vector<float> reduced(const Order& order) {
  std::vector<float> all;
  comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& group) {
    support::Machine machine(1);
    group.attach(*machine.stream, machine.runtime->team());
    const std::vector<layout::Unit> units = arch::units_of(arch::unit_table(support::tiny_llama()));
    const arch::UnitMap map = arch::unit_map(support::tiny_llama());
    Arena gradients("gradients", MemoryKind::gradients), rest("rest", MemoryKind::workspace);
    GradientMemory memory;
    memory.declare({gradients, rest, rest}, units,
                   {.microbatches = microbatches,
                    .reduce = order.reduce,
                    .open_microbatches = order.open,
                    .ranks = 2,
                    .order = arch::backward_order(map)});
    ZeroGradients store(units, map, microbatches, memory, {group}, *machine.ops, {.bucket_bytes = order.bucket_bytes});
    Ledger ledger;
    gradients.commit(*machine.runtime, ledger);
    rest.commit(*machine.runtime, ledger);
    for (int step = 0; step < 2; ++step) {
      store.begin(microbatches);
      for (int m = 0; m < microbatches + order.open - 1; ++m) {
        for (const UnitIndex unit : arch::backward_order(map)) {
          if (m < microbatches) {
            const OpenGradient open = store.open(unit, Microbatch{m});
            float value = static_cast<float>(step + 1) / static_cast<float>(3 + m + 7 * group.rank());
            for (float& g : elements<float>(open.flat)) g = open.accumulate ? g + (value *= 1.01F) : (value *= 1.01F);
          }
          if (m + 1 >= order.open) store.close(unit, Microbatch{m + 1 - order.open});
        }
      }
      store.finish();
    }
    if (group.rank() > 0) return;
    for (std::size_t u = 0; u < units.size(); ++u) {
      const std::span<float> values = elements<float>(store.shard(UnitIndex{static_cast<int>(u)}).gradient);
      all.insert(all.end(), values.begin(), values.end());
    }
  });
  return all;
}

TEST(Gradients, SeveralOpenMicroBatchesGiveTheBitsOfOne) {
  for (const layout::ReduceEvery reduce : {layout::ReduceEvery::step, layout::ReduceEvery::microbatch}) {
    const std::vector<float> one = reduced({.reduce = reduce});
    for (const int open : {2, 3, 4}) {
      for (const std::int64_t bytes : {1, 20000, 1 << 30}) {
        EXPECT_EQ(reduced({.reduce = reduce, .open = open, .bucket_bytes = bytes}), one) << open;
      }
    }
  }
}

TEST(Gradients, MicroBatchesAreOpenedAndClosedInOrder) {
  support::Machine machine(1);
  const arch::UnitMap map = arch::unit_map(support::tiny_llama());
  const std::vector<layout::Unit> units = arch::units_of(arch::unit_table(support::tiny_llama()));
  Arena arena("gradients", MemoryKind::gradients);
  GradientMemory memory;
  memory.declare({arena, arena, arena}, units, {.microbatches = 2, .order = arch::backward_order(map)});
  ZeroGradients store(units, map, 2, memory, {*machine.world}, *machine.ops, {});
  Ledger ledger;
  arena.commit(*machine.runtime, ledger);
  store.begin(2);
  EXPECT_THROW((void)store.open(map.head, Microbatch{1}), BrokenRule);
  EXPECT_THROW(store.close(map.head, Microbatch{0}), BrokenRule);
  (void)store.open(map.head, Microbatch{0});
  EXPECT_THROW(store.close(map.head, Microbatch{1}), BrokenRule);
  EXPECT_THROW(store.finish(), BrokenRule);
}

}  // namespace
}  // namespace lockstep::parallel
