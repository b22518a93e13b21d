#pragma once

// How texts of a model are written where the user does not say: which tokens end one, and what its publisher draws tokens by.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "arch/huggingface/generation_json.h"
#include "base/json.h"
#include "base/log.h"
#include "data/corpus.h"
#include "data/tokenizer.h"

namespace lockstep::app {

struct TextHabits {
  std::vector<std::int32_t> ends;            ///< each of them ends a text
  std::vector<std::int32_t> never;           ///< ids that are not drawn: they are no tokens, or their publisher says so
  arch::huggingface::Generation generation;  ///< empty where there is no generation_config.json
};

/// The special token that is written as `text`. Answers do not show it: where this text ends an answer, its token does.
std::optional<std::int32_t> mark_of(const data::Tokenizer& tokenizer, std::string_view text);

/// Warns of what generation_config.json asks for and is not done here.
void warn_of_undone(const TextHabits& habits, Log& log);

/// The habits by a manifest's `run` (published_files.h) and its tokenizer, which may be null. Warns of ends that are no tokens of
/// a model of `vocabulary`. Throws UserError for a generation_config.json that is not understood.
TextHabits text_habits(const Json& run, const data::Tokenizer* tokenizer, std::int64_t vocabulary, Log& log);

/// Writes into a manifest's `run` which tokens end the text's documents and turns.
void set_taught_ends(Json& run, const data::Corpus& corpus);
/// What set_taught_ends() wrote.
std::vector<std::int64_t> taught_ends(const Json& run);

/// The tokens that config.json ends texts with, and those that generation_config.json has besides. `config` may be null.
std::vector<std::int64_t> ends_of(const Json& config, const arch::huggingface::Generation& generation);
/// The same by `facts`: published_facts(), which may be null.
std::vector<std::int64_t> ends_of(const Json& facts);

}  // namespace lockstep::app
