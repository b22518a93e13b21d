// tokenizer.json, as others write it.

#include "data/bpe/tokenizer_json.h"

#include "data/bpe/bpe_tokenizer.h"
#include "fuzz/target.h"
#include "fuzz/use_tokenizer.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  data::bpe::Model model = data::bpe::model_from_json(Json::parse(text_of(input), "input"), "input");
  std::string stored = data::bpe::to_json(model).dump();
  use(*data::bpe::make_bpe_tokenizer(std::move(model), std::move(stored), data::bpe::AddedTokens::found));
}

}  // namespace lockstep::fuzz
