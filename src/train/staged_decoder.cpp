#include "train/staged_decoder.h"

namespace lockstep::train {

Tensor StagedDecoder::read(const Tensor& tokens, std::span<const ops::CachedText> texts) {
  decoder_.begin(texts);
  const Tensor x = decoder_.stream();
  for (std::size_t c = 0; c < decoder_.chunks().size(); ++c) {
    const auto is_elsewhere = [&](int rank) { return !alone() && rank >= 0 && rank != links_.group->rank(); };
    const layout::Neighbours at = alone() ? layout::Neighbours{} : links_.chunks[c];
    if (is_elsewhere(at.before)) links_.group->receive(x, at.before).wait();
    decoder_.run(c, tokens);
    if (is_elsewhere(at.behind)) links_.group->send(x, at.behind).wait();
  }
  return x;
}

std::int32_t StagedDecoder::from_head(std::int32_t value) {
  if (!alone()) links_.group->host().broadcast(view(std::span(&value, 1), Shape{1}), links_.head).wait();
  return value;
}

}  // namespace lockstep::train
