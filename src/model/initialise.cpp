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
          std::uint64_t seed, const Tensor& drawn) {
  if (part.dtype == DType::f32) return draw(elementwise, part, spec, first, seed);
  ensure(drawn.elements() > 0, "there is room for what is drawn in f32");
  for (std::int64_t done = 0; done < part.elements(); done += drawn.elements()) {
    const Tensor piece = drawn.flat(0, std::min(drawn.elements(), part.elements() - done));
    draw(elementwise, piece, spec, first + done, seed);
    elementwise.split(part.flat(done, piece.elements()), {}, piece);
  }
}

/// `part`: the rectangle's elements.
void fill_rectangle(ops::Elementwise& elementwise, const Tensor& part, const arch::ParameterSpec& spec,
                    const layout::Rectangle& rectangle, std::uint64_t seed, const Tensor& drawn) {
  for (std::int64_t row = 0; row < rectangle.rows; ++row) {
    fill(elementwise, part.flat(row * rectangle.columns, rectangle.columns), spec, rectangle.global + row * rectangle.stride,
         seed, drawn);
  }
}

}  // namespace

void initialise(ops::Ops& ops, parallel::TrainingState& state, const std::vector<arch::UnitSpec>& table, std::uint64_t seed,
                const Tensor& drawn) {
  state.for_each({.changes = true}, [&](const parallel::StateRange& range) {
    const auto u = static_cast<std::size_t>(range.unit.value);
    for (const layout::PlacedParameter& placed : state.units()[u].parameters) {
      const auto spec = std::find_if(table[u].parameters.begin(), table[u].parameters.end(),
                                     [&](const arch::ParameterSpec& p) { return p.info.name == placed.info.name; });
      ensure(spec != table[u].parameters.end(), "the state's units come from this table");
      const layout::Range held = layout::overlap({placed.offset, placed.shape().elements()}, range.range);
      if (held.count == 0) continue;
      for (const layout::Rectangle& rectangle : placed.shard.rectangles({held.first - placed.offset, held.count})) {
        fill_rectangle(ops.elementwise(),
                       range.master.flat(placed.offset - range.range.first + rectangle.local, rectangle.rows * rectangle.columns),
                       *spec, rectangle, seed, drawn);
      }
    }
  });
  parallel::publish(state, ops.elementwise());
}

}  // namespace lockstep::model
