// tokens.json, which describes prepared text, and the tokenizer in it.

#include "data/token_description.h"
#include "data/tokenizer.h"
#include "fuzz/target.h"
#include "fuzz/use_tokenizer.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  const data::TokenDescription description = data::description_from_json(Json::parse(text_of(input), "input"), "input");
  const std::string again = data::to_json(description).dump();
  ensure(data::to_json(data::description_from_json(Json::parse(again), "again")).dump() == again,
         "a description survives its file");
  use(*data::make_tokenizer(description.tokenizer));
}

}  // namespace lockstep::fuzz
