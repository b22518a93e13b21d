#include "app/published/published_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "app/cli/commit.h"
#include "app/published/text_habits.h"
#include "arch/huggingface/generation_json.h"
#include "base/text/utf8.h"
#include "data/chat/chat_template.h"
#include "data/tokenizer_choice.h"

namespace lockstep::app {
namespace {

namespace names = arch::huggingface;

using checkpoint::huggingface::chat_template_file, checkpoint::huggingface::tokenizer_config_file;

constexpr const char* end_key = "eos_token_id";
constexpr std::array<std::string_view, 4> kept_keys = {"bos_token_id", end_key, "pad_token_id",
                                                       checkpoint::huggingface::positions_key};
/// Beside generation_config.json these belong to the tokenizer.
constexpr std::array<std::string_view, 5> small_files = {generation_file, tokenizer_config_file, "special_tokens_map.json",
                                                         chat_template_file, "additional_chat_templates/tool_use.jinja"};

/// A number or a list with one more token; no list where one is enough.
Json with_end(const Json* ends, std::int64_t end) {
  if (ends == nullptr || ends->is_null()) return end;
  Json::Array all = ends->is_array() ? ends->array() : Json::Array{*ends};
  all.emplace_back(end);
  return all;
}

bool contains(const std::vector<std::int64_t>& ids, std::int64_t id) { return std::ranges::find(ids, id) != ids.end(); }

/// Adds the tokens that were `taught` as ends to those of config.json and generation_config.json. The library transformers asks
/// the second alone where it is there, so both get them. Without any end the tokenizer's `usual` one counts.
void settle_ends(Json& config, Json::Object& files, std::vector<std::int64_t> taught, std::optional<std::int32_t> usual) {
  std::vector<std::int64_t> ends = names::token_ids(config, end_key, "config.json");
  const auto file = std::ranges::find(files, generation_file, &Json::Object::value_type::first);
  if (file != files.end()) {
    Json generation = Json::parse(file->second.string(), generation_file);
    const std::vector<std::int64_t> more = names::generation_from_json(generation, generation_file).ends;
    for (const std::int64_t end : taught) {
      if (more.empty() || contains(more, end)) continue;
      generation.set(end_key, with_end(generation.find(end_key), end));
      file->second = generation.dump(2) + "\n";
    }
    ends.insert(ends.end(), more.begin(), more.end());
  }
  if (ends.empty() && taught.empty() && usual) taught.push_back(*usual);
  for (const std::int64_t end : taught) {
    if (!contains(ends, end)) config.set(end_key, with_end(config.find(end_key), end));
  }
}

/// What tokenizer_config.json calls the end: the first of config.json's ends that is an added token of tokenizer.json. For any
/// other text transformers would make a new token.
std::optional<std::string> end_token(const Json& config, const Json& tokenizer) {
  const Json* added = tokenizer.find("added_tokens");
  if (added == nullptr || !added->is_array()) return std::nullopt;
  for (const std::int64_t id : names::token_ids(config, end_key, "config.json")) {
    for (const Json& token : added->array()) {
      if (token.at("id").dump() == Json(id).dump()) return token.at("content").string();
    }
  }
  return std::nullopt;
}

/// tokenizer_config.json of a model that has none.
Json plain_tokenizer_config() {
  return Json::Object{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
}

}  // namespace

Json published_facts(const checkpoint::huggingface::Folder& folder) {
  constexpr std::uint64_t most_bytes = std::uint64_t{4} << 20;
  Json facts, files;
  for (const std::string_view key : kept_keys) {
    if (const Json* id = folder.config().find(key)) facts.set(std::string(key), *id);
  }
  for (const std::string_view name : small_files) {
    const io::Path path = folder.path() / name;
    if (!io::exists(path)) continue;
    std::string text = io::read_document(path, most_bytes);
    if (const std::size_t at = invalid_utf8_at(text); at != std::string::npos)
      throw UserError(fmt::format("{}: byte {} is not valid UTF-8", path.string(), at), "write the file again, or remove it");
    files.set(std::string(name), std::move(text));
  }
  for (const auto& [name, text] : folder.texts().object()) files.set(name, text);
  if (!files.is_object() || files.find(generation_file) == nullptr) {
    if (const Json said = names::generation_in_config(folder.config()); !said.is_null())
      files.set(generation_file, said.dump(2) + "\n");
  }
  if (!files.is_null()) facts.set(published_texts, std::move(files));
  return facts;
}

Json kept_facts(Json facts, const data::Tokenizer* source, const data::Tokenizer* text) {
  if (!facts.is_object() || source == nullptr || text == nullptr) return facts;
  const Json* files = facts.find(published_texts);
  if (files == nullptr || source->tokenizer_json() == text->tokenizer_json()) return facts;
  const Json* generation = files->find(generation_file);
  facts.set(published_texts, generation != nullptr ? Json(Json::Object{{generation_file, *generation}}) : Json(Json::Object{}));
  return facts;
}

void keep_template(Json& facts, const data::ChatFacts& chats) {
  const Json* kept = facts.is_object() ? facts.find(published_texts) : nullptr;
  Json::Object before = kept != nullptr ? kept->object() : Json::Object{};
  const auto own = data::ChatTemplate::from_texts(data::texts_among(before, ""));
  if (own && own->source() == chats.chat_template) return;
  std::erase_if(before, [](const auto& file) { return file.first == data::ModelTexts::tools; });
  Json files = std::move(before);
  files.set(chat_template_file, chats.chat_template);
  if (files.find(tokenizer_config_file) == nullptr && !chats.tokens.empty()) {
    Json config = plain_tokenizer_config();
    for (const auto& [name, text] : chats.tokens) config.set(name, text);
    files.set(tokenizer_config_file, config.dump(2) + "\n");
  }
  facts.set(published_texts, std::move(files));
}

data::ModelTexts kept_texts(const Json& run, std::string where) {
  const Json* published = run.is_object() ? run.find(published_key) : nullptr;
  const Json* files = published != nullptr && published->is_object() ? published->find(published_texts) : nullptr;
  return data::texts_among(files != nullptr && files->is_object() ? *files : Json(Json::Object{}), std::move(where));
}

Json carried_from(const checkpoint::huggingface::Folder& folder, Log& log) {
  Json run(Json::Object{{"program", program_version()}});
  Json facts = published_facts(folder);
  static_cast<void>(ends_of(facts));  // refuses what nobody could read back
  if (!facts.is_null()) run.set(published_key, std::move(facts));
  const data::PublishedTokenizer found = data::find_published_tokenizer(folder.path());
  if (found.tokenizer) {
    run.set("tokenizer", found.tokenizer->describe());
  } else {
    log.warning(fmt::format("no tokenizer is taken along: {}", found.fault));
  }
  return run;
}

checkpoint::huggingface::ExportOptions published_extras(const Json& run) {
  checkpoint::huggingface::ExportOptions options;
  const auto carried = [&](const char* key) { return run.is_object() ? run.find(key) : nullptr; };
  // transformers has defaults for these that are other models'.
  for (const std::string_view key : {"bos_token_id", end_key}) options.generation.set(std::string(key), nullptr);
  Json::Object files;
  if (const Json* published = carried(published_key)) {
    for (const auto& [key, value] : published->object()) {
      if (key == published_texts) files = value.object();
      if (key != published_texts) options.generation.set(key, value);
    }
  }
  const Json* tokenizer = carried("tokenizer");
  const std::unique_ptr<data::Tokenizer> made = tokenizer != nullptr ? data::make_tokenizer(*tokenizer) : nullptr;
  settle_ends(options.generation, files, taught_ends(run), made ? made->end_of_text() : std::nullopt);
  if (made) {
    options.texts.emplace_back(checkpoint::huggingface::tokenizer_file, made->tokenizer_json());
    if (std::ranges::find(files, tokenizer_config_file, &Json::Object::value_type::first) == files.end()) {
      Json config = plain_tokenizer_config();
      const Json file = Json::parse(options.texts.back().second, "tokenizer.json");
      if (const std::optional<std::string> end = end_token(options.generation, file)) config.set("eos_token", *end);
      options.texts.emplace_back(tokenizer_config_file, config.dump(2) + "\n");
    }
  }
  for (const auto& [name, content] : files) {
    // The names come from the checkpoint, which may be a stranger's: "../x" would lie outside of the folder.
    if (std::ranges::find(small_files, name) != small_files.end()) options.texts.emplace_back(name, content.string());
  }
  return options;
}

}  // namespace lockstep::app
