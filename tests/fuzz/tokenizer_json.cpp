// tokenizer.json, as others write it.

#include "data/bpe/tokenizer_json.h"

#include "data/bpe/bpe_tokenizer.h"
#include "data/plain_tokenizer_json.h"
#include "fuzz/target.h"
#include "fuzz/use_tokenizer.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  const Json json = Json::parse(text_of(input), "input");
  if (const auto plain = data::plain_tokenizer(json)) return use(*plain);
  data::bpe::Model model = data::bpe::model_from_json(json, "input");
  std::string stored = data::bpe::to_json(model).dump();
  use(*data::bpe::make_bpe_tokenizer(std::move(model), std::move(stored), data::bpe::AddedTokens::found));
}

}  // namespace lockstep::fuzz
