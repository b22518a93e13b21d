#include "app/published/gguf_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "app/published/published_files.h"
#include "app/published/text_habits.h"
#include "arch/gguf.h"
#include "arch/huggingface/config_json.h"
#include "arch/huggingface/generation_json.h"
#include "data/gguf_tokenizer.h"

namespace lockstep::app {
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;

/// Templates that Ollama writes in a language of its own, by what only they have.
struct ChatForm {
  std::string_view mark, form, stop;
};
constexpr std::array<ChatForm, 2> chat_forms{
    {{"<|im_start|>", "{{ range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n{{ end }}<|im_start|>assistant\n",
      "<|im_end|>"},
     {"<|start_header_id|>",
      "{{ range .Messages }}<|start_header_id|>{{ .Role }}<|end_header_id|>\n\n{{ .Content }}<|eot_id|>{{ end }}"
      "<|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|eot_id|>"}}};

/// One of the files as JSON; null where it is not there.
Json file_of(const Texts& texts, std::string_view name) {
  const auto found = std::ranges::find(texts, name, &Texts::value_type::first);
  return found == texts.end() ? Json() : Json::parse(found->second, name);
}
const Json* member_of(const Json& json, std::string_view key) { return json.is_object() ? json.find(key) : nullptr; }

/// The template of that file, or the one that tokenizer_config.json has by this name among others, or alone as "default".
std::string chat_template(const Texts& texts, const Json& tokenizer_config, std::string_view file, std::string_view named) {
  const auto own = std::ranges::find(texts, file, &Texts::value_type::first);
  if (own != texts.end()) return own->second;
  const Json* said = member_of(tokenizer_config, "chat_template");
  if (said != nullptr && said->is_array()) {
    for (const Json& one : said->array()) {
      const Json *name = member_of(one, "name"), *text = member_of(one, "template");
      if (name != nullptr && text != nullptr && name->is_string() && name->string() == named && text->is_string())
        return text->string();
    }
  }
  return said != nullptr && said->is_string() && named == "default" ? said->string() : "";
}

std::string modelfile_of(const std::string& chat, const data::Tokenizer* tokenizer, const std::vector<std::int64_t>& ends) {
  const auto* const form =
      std::ranges::find_if(chat_forms, [&](const ChatForm& one) { return chat.find(one.mark) != std::string::npos; });
  const bool known = form != chat_forms.end();
  std::string text;
  if (chat.empty() || known) text = fmt::format("TEMPLATE \"\"\"{}\"\"\"\n", known ? form->form : "{{ .Prompt }}");
  std::vector<std::string> stops;
  if (known) stops.emplace_back(form->stop);
  for (const std::int64_t id : ends) {
    if (tokenizer == nullptr || id < 0 || id >= tokenizer->vocabulary()) continue;
    const std::string stop(tokenizer->bytes(static_cast<std::int32_t>(id)));
    if (stop.find_first_of("\"\r\n") == std::string::npos && std::ranges::find(stops, stop) == stops.end()) stops.push_back(stop);
  }
  for (const std::string& stop : stops) text += fmt::format("PARAMETER stop \"{}\"\n", stop);
  return text;
}

}  // namespace

GgufFiles gguf_files(const Json& run, const arch::ModelConfig& config, Log& log) {
  if (config.activation == arch::ActivationKind::gelu && !config.gated) {
    log.warning(
        "the model has the exact GELU (erf), and llama.cpp computes GPT-2 with the approximation by tanh: values differ by up to "
        "0.0005");
  }
  if (config.window > 0 && arch::huggingface::family_of(config) == arch::huggingface::Family::phi3) {
    log.warning(
        fmt::format("the model's queries see {0} keys, and llama.cpp gives phi3 no window (its pull request 13676): behind {0} "
                    "tokens its values differ",
                    config.window));
  }
  const checkpoint::huggingface::ExportOptions extras = published_extras(run);
  const Json* described = member_of(run, "tokenizer");
  const std::unique_ptr<data::Tokenizer> tokenizer = described != nullptr ? data::make_tokenizer(*described) : nullptr;
  GgufFiles files{.pairs = Json::Object{{"tokenizer.ggml.model", "none"}}, .modelfile = {}, .facts = extras.generation};
  try {
    if (tokenizer) {
      files.pairs = data::gguf_of_tokenizer(*tokenizer, config.vocabulary);
      for (const std::string& lost : data::lost_in_gguf(*tokenizer)) log.warning(lost);
    }
  } catch (const UserError& error) {
    log.warning(fmt::format("no tokenizer is written: {}", error.problems().front().message));
  }
  const Json tokenizer_config = file_of(extras.texts, "tokenizer_config.json");
  const auto front = tokenizer ? tokenizer->begin_of_text() : std::span<const std::int32_t>();
  const Json* said = member_of(tokenizer_config, "add_bos_token");
  const bool begins = said != nullptr && said->is_bool() ? said->boolean() : !front.empty();
  files.pairs.set("tokenizer.ggml.add_bos_token", begins);
  const auto set = [&](std::string_view key, std::int64_t id) {
    if (id >= 0 && id < config.vocabulary) files.pairs.set(std::string(key), id);
  };
  for (const auto& [key, name] :
       {std::pair("bos_token_id", "tokenizer.ggml.bos_token_id"), {"pad_token_id", "tokenizer.ggml.padding_token_id"}}) {
    const std::vector<std::int64_t> ids = arch::huggingface::token_ids(extras.generation, key, "config.json");
    if (!ids.empty()) set(name, ids.front());
  }
  const Json generation = file_of(extras.texts, generation_file);
  const std::vector<std::int64_t> ends =
      ends_of(extras.generation, generation.is_null() ? arch::huggingface::Generation{}
                                                      : arch::huggingface::generation_from_json(generation, generation_file));
  for (std::size_t i = 0; i < std::min(ends.size(), arch::gguf::end_keys.size()); ++i) set(arch::gguf::end_keys[i], ends[i]);
  // llama.cpp begins texts with this one; config.json may name another than the tokenizer takes.
  if (begins && !front.empty()) files.pairs.set("tokenizer.ggml.bos_token_id", std::int64_t{front.front()});
  const std::string chat = chat_template(extras.texts, tokenizer_config, "chat_template.jinja", "default");
  if (!chat.empty()) files.pairs.set("tokenizer.chat_template", chat);
  const std::string tools = chat_template(extras.texts, tokenizer_config, "additional_chat_templates/tool_use.jinja", "tool_use");
  if (!tools.empty())
    files.pairs.set("tokenizer.chat_templates", Json::Array{"tool_use"}).set("tokenizer.chat_template.tool_use", tools);
  files.modelfile = modelfile_of(chat, tokenizer.get(), ends);
  return files;
}

}  // namespace lockstep::app
