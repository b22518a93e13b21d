// GPT-2's two vocabulary files, encoder.json and vocab.bpe, with a zero byte between them.

#include "data/bpe/gpt2_files.h"

#include <algorithm>

#include "data/bpe/bpe_tokenizer.h"
#include "data/bpe/tokenizer_json.h"
#include "fuzz/target.h"
#include "fuzz/use_tokenizer.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  const std::string_view text = text_of(input);
  const std::size_t cut = std::min(text.find('\0'), text.size());
  data::bpe::Model model =
      data::bpe::model_of_gpt2({"vocabulary", text.substr(0, cut)}, {"merges", text.substr(std::min(cut + 1, text.size()))});
  std::string stored = data::bpe::to_json(model).dump();
  use(*data::bpe::make_bpe_tokenizer(std::move(model), std::move(stored), data::bpe::AddedTokens::ordinary));
}

}  // namespace lockstep::fuzz
