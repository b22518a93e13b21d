// GGUF files: their container, the model that the keys say, and the tokenizer.

#include "io/gguf.h"

#include "arch/gguf.h"
#include "arch/huggingface/config_json.h"
#include "data/gguf_tokenizer.h"
#include "fuzz/memory.h"
#include "fuzz/target.h"
#include "fuzz/use_tokenizer.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  const io::Gguf file = io::parse_gguf(Memory(input), "input");
  for (const io::GgufTensor& tensor : file.tensors) {
    ensure(tensor.offset <= input.size() && tensor.bytes <= input.size() - tensor.offset, "a tensor lies in its file");
    ensure(file.find(tensor.name) == &tensor, "a tensor is found by its name");
  }
  try {
    use(*data::tokenizer_of_gguf(file.pairs, "input"));
  } catch (const UserError&) {
    // The model may be one all the same.
  }
  const arch::gguf::TensorFacts facts{.vocabulary = 3, .head = true, .biases = true, .rope_factors = {1, 8}};
  const Json config = arch::gguf::config_of(file.pairs, facts, "input");
  static_cast<void>(arch::gguf::pairs_of(arch::huggingface::model_from_json(config, "input").config, config));
}

}  // namespace lockstep::fuzz
