// config.json of published models, and the table of tensors that follows from one.

#include "arch/huggingface/config_json.h"
#include "arch/huggingface/tensors.h"
#include "fuzz/target.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  namespace huggingface = arch::huggingface;
  const huggingface::PublishedModel model = huggingface::model_from_json(Json::parse(text_of(input), "input"), "input");
  ensure(arch::check(model.config).empty(), "a model that was read can be made");
  if (model.config.layers > 16) return;  // more of the same
  ensure(!huggingface::tensor_table(model.config, model.family).parameters.empty(), "a model has parameters");
}

}  // namespace lockstep::fuzz
