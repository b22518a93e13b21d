#include "app/published/text_habits.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/published/published_files.h"
#include "base/units.h"

namespace lockstep::app {
namespace {

namespace names = arch::huggingface;

const Json* member(const Json& json, const char* key) { return json.is_object() ? json.find(key) : nullptr; }

names::Generation generation_of(const Json& facts) {
  const Json* files = member(facts, published_texts);
  const Json* text = files != nullptr ? member(*files, generation_file) : nullptr;
  return text == nullptr ? names::Generation{}
                         : names::generation_from_json(Json::parse(text->string(), generation_file), generation_file);
}

/// Texts that end one, as tokens where they are some: "stop_strings", and the "eos_token" of tokenizer_config.json.
std::vector<std::string> ending_texts(const Json& run, const names::Generation& generation) {
  std::vector<std::string> texts = generation.stops;
  for (const auto& [name, text] : data::tokens_of(data::config_of(kept_texts(run, "")))) {
    if (name == "eos_token") texts.push_back(text.string());
  }
  return texts;
}

}  // namespace

std::vector<std::int64_t> ends_of(const Json& config, const names::Generation& generation) {
  std::vector<std::int64_t> ends;
  if (config.is_object()) ends = names::token_ids(config, "eos_token_id", "config.json");
  for (const std::int64_t id : generation.ends) {
    if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  }
  return ends;
}

void set_taught_ends(Json& run, const data::Corpus& corpus) {
  if (corpus.document_end) run.set(document_end_key, *corpus.document_end);
  if (corpus.chats && corpus.chats->end) run.set(turn_end_key, *corpus.chats->end);
}

std::vector<std::int64_t> taught_ends(const Json& run) {
  std::vector<std::int64_t> ends;
  for (const char* key : {document_end_key, turn_end_key}) {
    if (const Json* end = member(run, key); end != nullptr && end->is_int()) ends.push_back(end->integer());
  }
  return ends;
}

std::vector<std::int64_t> ends_of(const Json& facts) { return ends_of(facts, generation_of(facts)); }

std::optional<std::int32_t> mark_of(const data::Tokenizer& tokenizer, std::string_view text) {
  const std::optional<std::int32_t> token = data::token_of(tokenizer, text);
  return token && tokenizer.is_special(*token) ? token : std::nullopt;
}

void warn_of_undone(const TextHabits& habits, Log& log) {
  if (!habits.generation.undone.empty())
    log.warning(fmt::format("{} (else config.json): {}, which is not done here: transformers writes other texts", generation_file,
                            fmt::join(habits.generation.undone, ", ")));
}

TextHabits text_habits(const Json& run, const data::Tokenizer* tokenizer, std::int64_t vocabulary, Log& log) {
  const Json* published = member(run, published_key);
  const Json facts = published != nullptr ? *published : Json();
  TextHabits habits{.ends = {}, .never = {}, .generation = generation_of(facts)};
  const auto add = [&](std::int64_t id) {
    const auto token = static_cast<std::int32_t>(id);
    if (std::ranges::find(habits.ends, token) == habits.ends.end()) habits.ends.push_back(token);
  };
  std::vector<std::int64_t> strange;
  for (const std::int64_t id : ends_of(facts, habits.generation)) {
    id >= 0 && id < vocabulary ? add(id) : strange.push_back(id);
  }
  if (!strange.empty()) {
    log.warning(fmt::format("\"eos_token_id\" {}: no token of a vocabulary of {}, so it ends no text", fmt::join(strange, ", "),
                            format_count(vocabulary)));
  }
  for (const std::int64_t id : taught_ends(run)) add(id);
  if (tokenizer != nullptr) {
    if (const std::optional<std::int32_t> usual = tokenizer->end_of_text()) add(*usual);
    habits.never = data::missing_ids(*tokenizer, vocabulary);
    for (const std::string& stop : ending_texts(run, habits.generation)) {
      if (const std::optional<std::int32_t> mark = mark_of(*tokenizer, stop)) add(*mark);
    }
  }
  for (const std::int64_t id : habits.generation.suppressed) {
    if (id >= 0 && id < vocabulary) habits.never.push_back(static_cast<std::int32_t>(id));
  }
  return habits;
}

}  // namespace lockstep::app
