#include "app/convert/published_files.h"

#include <fmt/format.h>

#include <array>

#include "data/tokenizer_choice.h"

namespace lockstep::app {
namespace {

constexpr std::array<std::string_view, 2> token_keys = {"bos_token_id", "eos_token_id"};
constexpr const char* published_key = "huggingface";

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
  if (const Json* tokenizer = carried("tokenizer")) {
    Json config(Json::Object{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}});
    const std::unique_ptr<data::Tokenizer> made = data::make_tokenizer(*tokenizer);
    if (const std::optional<std::int32_t> end = made->end_of_text()) {
      options.generation.set("eos_token_id", *end);
      config.set("eos_token", std::string(made->bytes(*end)));
    }
    options.texts.emplace_back(checkpoint::huggingface::tokenizer_file, made->tokenizer_json());
    options.texts.emplace_back("tokenizer_config.json", config.dump(2) + "\n");
  } else {
    log.warning("the checkpoint has no tokenizer to take along");
  }
  if (const Json* published = carried(published_key)) {
    for (const auto& [key, id] : published->object()) options.generation.set(key, id);
  }
  return options;
}

}  // namespace lockstep::app
