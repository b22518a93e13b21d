// adapter_config.json of PEFT's folders: what is read has a rank and a scale.

#include "arch/huggingface/adapter.h"

#include "fuzz/target.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  const arch::Adapter adapter = arch::huggingface::adapter_from_config(Json::parse(text_of(input), "input"),
                                                                       arch::huggingface::Family::llama, false, "input");
  ensure(adapter.used() && adapter.scale() > 0, "an adapter adds something");
}

}  // namespace lockstep::fuzz
