#include "model/initialise.h"

#include <algorithm>
#include <vector>

namespace lockstep::model {
namespace {

void draw(ops::Elementwise& elementwise, const Tensor& part, const arch::ParameterSpec& spec, std::int64_t first,
          std::uint64_t seed) {
  const CounterRng rng(seed, "init." + spec.info.name);
  switch (spec.init.kind) {
    case arch::Init::Kind::constant:
      elementwise.fill(part, spec.init.value);
      break;
    case arch::Init::Kind::normal:
      elementwise.normal(part, rng, first, 0, spec.init.value);
      break;
    case arch::Init::Kind::uniform:
      elementwise.uniform(part, rng, first, -spec.init.value, spec.init.value);
      break;
  }
}

/// Values are drawn in f32; another type rounds them.
void fill(ops::Elementwise& elementwise, const Tensor& part, const arch::ParameterSpec& spec, std::int64_t first,
          std::uint64_t seed) {
  if (part.dtype == DType::f32) return draw(elementwise, part, spec, first, seed);
  constexpr std::int64_t piece = 1 << 16;
  std::vector<float> values(static_cast<std::size_t>(std::min(piece, part.elements())));
  for (std::int64_t done = 0; done < part.elements(); done += piece) {
    const std::int64_t count = std::min(piece, part.elements() - done);
    const Tensor drawn = view(std::span(values), Shape{std::ssize(values)}).flat(0, count);
    draw(elementwise, drawn, spec, first + done, seed);
    elementwise.cast(part.flat(done, count), drawn);
  }
}

}  // namespace

void initialise(ops::Ops& ops, parallel::ParameterStore& store, const std::vector<arch::UnitSpec>& table, std::uint64_t seed) {
  for (std::size_t u = 0; u < table.size(); ++u) {
    const layout::Unit& unit = store.units()[u];
    const parallel::ParameterStore::Shard shard = store.shard(UnitIndex{static_cast<int>(u)});
    for (const layout::PlacedParameter& placed : unit.parameters) {
      const auto spec = std::find_if(table[u].parameters.begin(), table[u].parameters.end(),
                                     [&](const arch::ParameterSpec& p) { return p.info.name == placed.info.name; });
      ensure(spec != table[u].parameters.end(), "the store's units come from this table");
      const std::int64_t begin = std::max(placed.offset, shard.first);
      const std::int64_t end = std::min(placed.offset + placed.info.shape.elements(), shard.first + shard.master.elements());
      if (begin >= end) continue;
      fill(ops.elementwise(), shard.master.flat(begin - shard.first, end - begin), *spec, begin - placed.offset, seed);
    }
  }
  parallel::publish(store, ops.elementwise());
}

}  // namespace lockstep::model
