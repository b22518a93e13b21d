#include "model/initialise.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "parallel/zero/resident_parameters.h"
#include "parallel/zero/resident_state.h"
#include "support/random_models.h"
#include "support/tiny_engine.h"
#include "support/tiny_stages.h"

namespace lockstep::model {
namespace {

/// A rank's weights with their start values.
struct Weights {
  Weights(const arch::ModelConfig& config, layout::TensorRank tensor, const parallel::WeightStorage& storage,
          support::Machine& machine)
      : memory(arch::units_of(arch::unit_table(config), tensor), storage, {}),
        store(memory, *machine.world),
        gradients(store.units(), Shape{config.vocabulary, config.width}),
        state(store, gradients, no_slots, *machine.world) {
    memory.declare(arena, arena);
    Tensor drawn;
    arena.declare(drawn, "drawn", Shape{100}, DType::f32);
    Ledger ledger;
    arena.commit(*machine.runtime, ledger);
    initialise(*machine.ops, state, arch::unit_table(config), 7, drawn);
  }
  /// The bytes of the elements that the rank holds of a parameter.
  std::span<const std::byte> bytes(std::size_t unit, const layout::PlacedParameter& placed) {
    const Tensor flat = store.shard(UnitIndex{static_cast<int>(unit)}).master;
    return elements<std::byte>(flat.flat(placed.offset, placed.shape().elements()));
  }

  Arena arena{"weights", MemoryKind::parameters};
  parallel::ParameterMemory memory;
  parallel::ResidentParameters store;
  support::PlainGradients gradients;
  parallel::SlotMemory no_slots;
  parallel::ResidentState state;
};

void expect_alike(Weights& part, Weights& whole, const parallel::WeightStorage& storage) {
  const std::size_t element = size_of(storage.owned());
  for (std::size_t u = 0; u < part.store.units().size(); ++u) {
    for (std::size_t p = 0; p < part.store.units()[u].parameters.size(); ++p) {
      const layout::PlacedParameter& placed = part.store.units()[u].parameters[p];
      const std::span<const std::byte> mine = part.bytes(u, placed), all = whole.bytes(u, whole.store.units()[u].parameters[p]);
      for (const layout::Rectangle& r : placed.shard.rectangles({0, placed.shape().elements()})) {
        for (std::int64_t row = 0; row < r.rows; ++row) {
          const auto here = static_cast<std::size_t>(r.local + row * r.columns) * element;
          const auto there = static_cast<std::size_t>(r.global + row * r.stride) * element;
          EXPECT_EQ(std::memcmp(&mine[here], &all[there], static_cast<std::size_t>(r.columns) * element), 0) << placed.info.name;
        }
      }
    }
  }
}

TEST(Initialise, EveryShardStartsAsTheWholeDoes) {
  support::Machine machine;
  std::mt19937 random(4);
  for (int model = 0; model < 12; ++model) {
    arch::ModelConfig config = support::random_model(random);
    config.width *= 11;  // rows and columns of more than a vector
    config.ffn_width *= 7;
    const parallel::WeightStorage storage = model % 3 == 0   ? support::bf16_alone
                                            : model % 3 == 1 ? support::bf16_with_masters
                                                             : parallel::WeightStorage{};
    Weights whole(config, {}, storage, machine);
    for (int ranks = 1; ranks <= 8; ++ranks) {
      SCOPED_TRACE(::testing::Message() << "model " << model << " on " << ranks << " ranks");
      for (int rank = 0; rank < ranks; ++rank) {
        Weights part(config, {rank, ranks}, storage, machine);
        expect_alike(part, whole, storage);
      }
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace lockstep::model
