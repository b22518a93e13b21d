// What lies beside another system's tensors: the facts of its step.

#include "fuzz/target.h"
#include "lab/against/dump.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  const lab::against::Facts facts = lab::against::facts_of(Json::parse(text_of(input), "input"), "input");
  ensure(facts.dp >= 1 && facts.micro_batches >= 1 && facts.loss_scale > 0, "a step can have been so");
}

}  // namespace lockstep::fuzz
