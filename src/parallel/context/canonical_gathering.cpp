#include "parallel/context/canonical_gathering.h"

namespace lockstep::parallel {

void CanonicalGathering::connect(comm::Communicator& group) {
  gathering_.connect(group);
  exchanging_.connect(group);
}

void CanonicalGathering::declare(Arena& arena, const AttentionSizes& sizes) {
  gathering_.declare(arena, keys_, sizes);
  gathering_.declare_forward(arena, sizes);
  exchanging_.declare(arena, heads_, sizes);
  exchanging_.declare(arena, sizes);
}

void CanonicalGathering::forward(ops::Ops& ops, const AttentionTensors& x, const AttentionSaved& /*saved*/,
                                 const AttentionCall& call) {
  gathering_.forward(ops, x, keys_, call);
}

void CanonicalGathering::backward(ops::Ops& ops, const AttentionTensors& d, const AttentionTensors& x,
                                  const AttentionSaved& /*saved*/, const AttentionCall& call) {
  exchanging_.forward(ops, x, heads_, call);
  exchanging_.backward(ops, d, x, heads_, call);
}

}  // namespace lockstep::parallel
