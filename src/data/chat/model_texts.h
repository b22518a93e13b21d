#pragma once

// The small files of a published model that say how texts are written for it: its chat template and its special tokens.

#include <string>

#include "base/json.h"
#include "io/file.h"

namespace lockstep::data {

struct ModelTexts {
  Json files = Json::Object{};  ///< texts by the names of their files, in a fixed order; any may be missing
  std::string where = {};       ///< the model, as messages call it

  static constexpr const char *config = "tokenizer_config.json", *chat = "chat_template.jinja", *map = "special_tokens_map.json",
                              *tools = "additional_chat_templates/tool_use.jinja";

  /// The text of that name; null where there is none.
  const Json* find(const char* name) const { return files.find(name); }
  bool empty() const { return files.object().empty(); }
};

/// Where the texts of a model lie: in its folder or its GGUF file, and beside any other file of it.
io::Path place_of_texts(const io::Path& model);
/// Those of a model's folder, or of a GGUF file.
ModelTexts texts_of(const io::Path& model);
/// Those among the files of a model, which `files` has as texts by their names.
ModelTexts texts_among(const Json& files, std::string where);

/// What tokenizer_config.json says. Unless it lists the added tokens, too, it is an old one, and special_tokens_map.json goes
/// before it (transformers 5, tokenization_utils_base.py, _from_pretrained).
Json config_of(const ModelTexts& texts);
/// The texts of "bos_token" and the like in such a config.
Json::Object tokens_of(const Json& config);

}  // namespace lockstep::data
