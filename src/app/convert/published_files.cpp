#include "app/convert/published_files.h"

#include <fmt/format.h>

#include <array>

#include "data/tokenizer_choice.h"

namespace lockstep::app {
namespace {

constexpr std::array<std::string_view, 2> token_keys = {"bos_token_id", "eos_token_id"};
constexpr const char* published_key = "huggingface";

struct EndToken {
  std::string content;
  std::int64_t id = 0;
};

/// The added token that ends a text, by the names that published models give it.
std::optional<EndToken> end_token(const Json& tokenizer) {
  const Json* added = tokenizer.is_object() ? tokenizer.find("added_tokens") : nullptr;
  if (added == nullptr || !added->is_array()) return std::nullopt;
  for (const std::string_view name : {"<|endoftext|>", "<|end_of_text|>", "</s>"}) {
    for (const Json& token : added->array()) {
      if (token.at("content").string() == name) return EndToken{std::string(name), token.at("id").integer()};
    }
  }
  return std::nullopt;
}

}  // namespace

Json carried_from(const checkpoint::huggingface::Folder& folder, Log& log) {
  Json run{Json::Object{}};
  Json published;
  for (const std::string_view key : token_keys) {
    if (const Json* id = folder.config().find(key)) published.set(std::string(key), *id);
  }
  if (!published.is_null()) run.set(published_key, std::move(published));
  const data::PublishedTokenizer found = data::find_published_tokenizer(folder.path());
  if (found.tokenizer) {
    run.set("tokenizer", found.tokenizer->describe());
  } else {
    log.warning(fmt::format("no tokenizer is taken along: {}", found.fault));
  }
  return run;
}

checkpoint::huggingface::ExportOptions published_extras(const checkpoint::Manifest& manifest, Log& log) {
  checkpoint::huggingface::ExportOptions options;
  const auto carried = [&](const char* key) { return manifest.run.is_object() ? manifest.run.find(key) : nullptr; };
  // transformers has defaults for these that are other models'.
  for (const std::string_view key : token_keys) options.generation.set(std::string(key), nullptr);
  const Json* tokenizer = carried("tokenizer");
  const Json* text = tokenizer != nullptr ? tokenizer->find("tokenizer_json") : nullptr;
  if (text != nullptr) {
    Json config(Json::Object{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}});
    if (const auto end = end_token(Json::parse(text->string(), "tokenizer.json"))) {
      options.generation.set("eos_token_id", end->id);
      config.set("eos_token", end->content);
    }
    options.texts.emplace_back(checkpoint::huggingface::tokenizer_file, text->string());
    options.texts.emplace_back("tokenizer_config.json", config.dump(2) + "\n");
  } else {
    log.warning(tokenizer == nullptr ? std::string("the checkpoint has no tokenizer to take along")
                                     : fmt::format("the tokenizer \"{}\" has no tokenizer.json: the model is written without",
                                                   tokenizer->at("name").string()));
  }
  if (const Json* published = carried(published_key)) {
    for (const auto& [key, id] : published->object()) options.generation.set(key, id);
  }
  return options;
}

}  // namespace lockstep::app
