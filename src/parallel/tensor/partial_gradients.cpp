#include "parallel/tensor/partial_gradients.h"

#include <algorithm>

#include "tensor/mirror.h"

namespace lockstep::parallel {
namespace {

using layout::Range;

/// Neighbouring elements of a parameter that a rank's shard has.
struct Part {
  Range global;        ///< elements of the whole tensor
  std::int64_t local;  ///< in the shard
};

std::vector<Part> parts_of(const layout::Shard& shard, bool sequence) {
  std::vector<Part> parts;
  for (const layout::SharedRange& shared : shard.partial(sequence)) {
    for (const layout::Rectangle& rectangle : shard.rectangles(shared.elements)) {
      ensure(rectangle.rows == 1, "what several ranks hold is not cut along columns");
      parts.push_back({{rectangle.global, rectangle.columns}, rectangle.local});
    }
  }
  return parts;
}

/// What any rank holds only a part of the gradient of, in order and without overlaps.
std::vector<Range> added_over(const layout::ParameterInfo& info, int ranks, bool sequence) {
  std::vector<Range> all, merged;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const Part& part : parts_of(layout::Shard(info.shape, info.rule, {rank, ranks}), sequence)) all.push_back(part.global);
  }
  std::ranges::sort(all, {}, &Range::first);
  for (const Range& range : all) {
    if (merged.empty() || range.first > merged.back().end()) {
      merged.push_back(range);
    } else {
      merged.back().count = std::max(merged.back().end(), range.end()) - merged.back().first;
    }
  }
  return merged;
}

}  // namespace

void PartialGradientMemory::declare(Arena& workspace, const std::vector<layout::Unit>& of, layout::TensorRank tensor,
                                    bool sequence) {
  units.assign(of.size(), {});
  std::int64_t most = 0;
  for (std::size_t u = 0; u < of.size() && tensor.ranks > 1; ++u) {
    if (!of[u].trained) continue;
    for (const layout::PlacedParameter& placed : of[u].parameters) {
      for (const Range& range : added_over(placed.info, tensor.ranks, sequence)) {
        for (const Part& part : parts_of(placed.shard, sequence)) {
          const Range held = layout::overlap(part.global, range);
          if (held.count == 0) continue;
          const std::int64_t first = placed.offset + part.local + held.first - part.global.first;
          units[u].pieces.push_back({{first, held.count}, units[u].elements + held.first - range.first});
        }
        units[u].elements += range.count;
      }
    }
    most = std::max(most, units[u].elements);
  }
  if (most > 0) workspace.declare(packed, "partial gradients", Shape{most}, DType::f32);
}

PartialGradients::PartialGradients(GradientStore& whole, const PartialGradientMemory& memory, comm::Communicator& group,
                                   ops::Ops& ops)
    : whole_(whole), memory_(memory), group_(group), ops_(ops), open_(memory.units.size()) {}

void PartialGradients::begin(int microbatches) {
  microbatches_ = microbatches;
  for (std::vector<Tensor>& unit : open_) unit.resize(static_cast<std::size_t>(microbatches));
  whole_.begin(microbatches);
}

OpenGradient PartialGradients::open(UnitIndex unit, Microbatch microbatch) {
  const OpenGradient opened = whole_.open(unit, microbatch);
  open_[static_cast<std::size_t>(unit.value)][static_cast<std::size_t>(microbatch.value)] = opened.flat;
  return opened;
}

void PartialGradients::close(UnitIndex unit, Microbatch microbatch) {
  const auto u = static_cast<std::size_t>(unit.value);
  if (whole_.reduces_each_microbatch() || microbatch.value + 1 == microbatches_)
    add(memory_.units[u], open_[u][static_cast<std::size_t>(microbatch.value)]);
  whole_.close(unit, microbatch);
}

// Ranks that have nothing of a shared head add zeros: all ranks do the same.
void PartialGradients::add(const PartialGradientMemory::OfUnit& parts, const Tensor& flat) {
  if (parts.elements == 0) return;
  const Tensor packed = memory_.packed.flat(0, parts.elements);
  ops_.elementwise().zero(packed);
  const auto for_each_piece = [&](const auto& move) {
    for (const auto& [elements, first] : parts.pieces)
      move(flat.flat(elements.first, elements.count), packed.flat(first, elements.count));
  };
  for_each_piece([&](const Tensor& own, const Tensor& place) { copy(ops_.stream(), place, own); });
  group_.moving(comm::Purpose::gradients).all_reduce(packed, comm::Reduction::sum).join(ops_.stream());
  for_each_piece([&](const Tensor& own, const Tensor& place) { copy(ops_.stream(), own, place); });
}

}  // namespace lockstep::parallel
