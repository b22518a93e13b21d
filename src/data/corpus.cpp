#include "data/corpus.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "base/error.h"

namespace lockstep::data {

Corpus open_corpus(const io::Path& folder, Log& log) {
  const std::optional<TokenDescription> description = read_description(folder);
  if (!description) {
    const TokenFormat gpt2;
    Corpus corpus{.train = TokenFile((folder / "train.bin").string(), gpt2),
                  .val = TokenFile((folder / "val.bin").string(), gpt2),
                  .tokenizer = nullptr};
    // nanoGPT's words; a pickle that is there is not read.
    log.warning(std::filesystem::exists(folder / "meta.pkl")
                    ? "No tokens.json found (meta.pkl is not read), assuming GPT-2 encodings..."
                    : "No meta.pkl found, assuming GPT-2 encodings...");
    return corpus;
  }
  Corpus corpus{.train = open_described(folder, *description, "train.bin"),
                .val = open_described(folder, *description, "val.bin"),
                .tokenizer = make_tokenizer(description->tokenizer)};
  if (corpus.tokenizer->vocabulary() > corpus.vocabulary()) {
    throw UserError(fmt::format("tokens.json of {} says vocabulary {}, but its tokenizer has {}", folder.string(),
                                corpus.vocabulary(), corpus.tokenizer->vocabulary()),
                    "prepare the text again with lockstep prepare");
  }
  corpus.train_text_bytes = description->find("train.bin")->text_bytes;
  corpus.val_text_bytes = description->find("val.bin")->text_bytes;
  return corpus;
}

TokenText open_tokens(const io::Path& path, std::int64_t vocabulary) {
  const io::Path folder = path.has_parent_path() ? path.parent_path() : io::Path(".");
  if (std::filesystem::is_directory(folder)) {
    const std::optional<TokenDescription> description = read_description(folder);
    const TokenFileFacts* facts = description ? description->find(path.filename().string()) : nullptr;
    if (facts != nullptr) {
      return {open_described(folder, *description, facts->name), facts->text_bytes,
              facts->mask ? facts->mask->targets : facts->tokens};
    }
  }
  TokenFile file(path.string(), {.token_bytes = TokenFormat::bytes_for(vocabulary), .vocabulary = vocabulary});
  const std::int64_t tokens = file.tokens();
  return {std::move(file), 0, tokens};
}

}  // namespace lockstep::data
