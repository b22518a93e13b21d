// Shell scripts with Megatron-LM's arguments.

#include "app/plan/foreign/megatron.h"

#include "fuzz/target.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  const app::ForeignJob job = app::megatron::read(text_of(input), "fuzz.sh");
  ensure(job.config.model.n_layer > 0, "what is read is a model");
}

}  // namespace lockstep::fuzz
