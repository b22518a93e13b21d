#include "data/chat/model_texts.h"

#include <array>
#include <utility>

#include "base/text/visible.h"
#include "io/gguf.h"

namespace lockstep::data {
namespace {

constexpr std::array<const char*, 4> names = {ModelTexts::chat, ModelTexts::tools, ModelTexts::config, ModelTexts::map};

}  // namespace

ModelTexts texts_of(const io::Path& model) {
  if (io::is_gguf(model))
    return texts_among(io::texts_of_gguf(io::parse_gguf(io::FileBytes(model), model.string()).pairs), model.string());
  constexpr std::uint64_t most_bytes = std::uint64_t{16} << 20;
  ModelTexts texts{.where = model.string()};
  for (const char* name : names) {
    if (io::exists(model / name)) texts.files.set(name, io::read_document(model / name, most_bytes));
  }
  return texts;
}

io::Path place_of_texts(const io::Path& model) {
  return io::is_folder(model) || io::is_gguf(model) ? model : io::folder_of(model);
}

ModelTexts texts_among(const Json& files, std::string where) {
  ModelTexts texts{.where = std::move(where)};
  for (const char* name : names) {
    if (const Json* text = files.find(name); text != nullptr && text->is_string()) texts.files.set(name, *text);
  }
  return texts;
}

Json config_of(const ModelTexts& texts) {
  const auto read = [&](const char* name) {
    const Json* text = texts.find(name);
    return text != nullptr ? Json::parse(text->string(), visible((io::Path(texts.where) / name).string())) : Json(Json::Object{});
  };
  Json config = read(ModelTexts::config);
  if (config.find("added_tokens_decoder") != nullptr) return config;
  const Json map = read(ModelTexts::map);
  for (const auto& [token, text] : map.object()) config.set(token, text);
  return config;
}

// "bos_token": "<s>", or {"content": "<s>", ...}. Tokens of a model's own stand in objects (transformers 5,
// tokenization_utils_base.py, special_tokens_map).
Json::Object tokens_of(const Json& config) {
  Json::Object tokens;
  const auto take = [&](const std::string& key, const Json& value) {
    const Json* text = value.is_object() ? value.find("content") : &value;
    if (text != nullptr && text->is_string()) tokens.emplace_back(key, *text);
  };
  for (const auto& [key, value] : config.object()) {
    if (key.ends_with("_token")) take(key, value);
  }
  for (const char* more : {"extra_special_tokens", "model_specific_special_tokens"}) {
    const Json* own = config.find(more);
    if (own == nullptr || !own->is_object()) continue;
    for (const auto& [key, value] : own->object()) take(key, value);
  }
  return tokens;
}

}  // namespace lockstep::data
