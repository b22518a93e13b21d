// config.json of published models, with the table of tensors that follows from one, and generation_config.json.

#include "arch/huggingface/config_json.h"
#include "arch/huggingface/generation_json.h"
#include "arch/huggingface/tensors.h"
#include "fuzz/target.h"

namespace lockstep::fuzz {

namespace huggingface = arch::huggingface;

namespace {

void read_generation(const Json& json) {
  try {
    const huggingface::Generation found = huggingface::generation_from_json(json, "input");
    ensure(found.temperature.value_or(0) >= 0 && found.top_k.value_or(0) >= 0, "tokens can be drawn so");
    ensure(found.top_p.value_or(1) > 0 && found.top_p.value_or(1) <= 1, "a share is one");
  } catch (const UserError&) {  // a config.json is none
  }
}

}  // namespace

void read(std::span<const std::byte> input) {
  const Json json = Json::parse(text_of(input), "input");
  read_generation(json);
  const huggingface::PublishedModel model = huggingface::model_from_json(json, "input");
  ensure(arch::check(model.config).empty(), "a model that was read can be made");
  if (model.config.layers > 16) return;  // more of the same
  ensure(!huggingface::tensor_table(model.config, model.family).parameters.empty(), "a model has parameters");
}

}  // namespace lockstep::fuzz
