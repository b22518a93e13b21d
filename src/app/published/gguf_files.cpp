#include "app/published/gguf_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "app/published/published_files.h"
#include "app/published/text_habits.h"
#include "arch/gguf.h"
#include "arch/huggingface/config_json.h"
#include "arch/huggingface/generation_json.h"
#include "data/chat/model_texts.h"
#include "data/gguf_sentencepiece.h"
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

/// A model's special tokens. tokenizer_config.json names them by their texts, and config.json has ids for the others: gguf-py
/// reads them in this order (gguf/vocab.py, SpecialVocab).
class SpecialTokens {
 public:
  SpecialTokens(const checkpoint::huggingface::ExportOptions& extras, const data::Tokenizer* tokenizer, std::int64_t vocabulary)
      : ids_(extras.generation), tokenizer_(tokenizer), vocabulary_(vocabulary) {
    Json files(Json::Object{});
    for (const auto& [name, text] : extras.texts) files.set(name, text);
    config = data::config_of(data::texts_among(files, ""));
    named_ = data::tokens_of(config);
    ends = ends_of(Json(ids_).set(published_texts, std::move(files)));
    if (const std::optional<std::int64_t> named = id_of("eos")) {
      std::erase(ends, *named);
      ends.insert(ends.begin(), *named);
    }
    std::erase_if(ends, [&](std::int64_t id) { return !is_token(id); });
  }

  /// Adds them to the pairs. `chat` is the template, which may write them. Whether a text begins with a token is the tokenizer's
  /// to say: transformers 5 obeys no "add_bos_token" beside a tokenizer.json (tokenization_utils_base.py, _from_pretrained).
  void write(Json& pairs, const std::string& chat, Log& log) const {
    const auto front = tokenizer_ != nullptr ? tokenizer_->begin_of_text() : std::span<const std::int32_t>();
    const bool begins = !front.empty() && is_token(front.front()), written = chat.find("bos_token") != std::string::npos;
    std::optional<std::int64_t> begin = id_of("bos");
    const Json* said = member_of(config, "add_bos_token");
    if (said != nullptr && said->is_bool() && said->boolean() != begins)
      log.warning(fmt::format("tokenizer_config.json: \"add_bos_token\" is {}, and tokenizer.json begins {}: the second counts",
                              said->boolean(), begins ? "texts with " + shown(front.front()) : "no text with a token"));
    if (begins && begin && *begin != front.front() && written)
      log.warning(
          fmt::format("tokenizer.json begins texts with {0}, and \"bos_token\" is {1}: a GGUF file has one for both, {0}, "
                      "which its chat template writes",
                      shown(front.front()), shown(*begin)));
    if (begins) begin = front.front();
    pairs.set("tokenizer.ggml.add_bos_token", begins);
    for (const auto& [name, id] : {std::pair("bos", begin), {"unknown", id_of("unk")}, {"padding", id_of("pad")}}) {
      if (id) pairs.set(fmt::format("tokenizer.ggml.{}_token_id", name), *id);
    }
    const std::size_t places = arch::gguf::end_keys.size();
    for (std::size_t i = 0; i < std::min(ends.size(), places); ++i) pairs.set(std::string(arch::gguf::end_keys[i]), ends[i]);
    for (std::size_t i = places; i < ends.size(); ++i)
      log.warning(fmt::format("a GGUF file names {} tokens that end texts: {} is left out", places, shown(ends[i])));
    warn_of_others(pairs.at("tokenizer.ggml.model").string(), chat, begin, log);
  }

  Json config;                     ///< what tokenizer_config.json says
  std::vector<std::int64_t> ends;  ///< the first is "eos_token"

 private:
  bool is_token(std::int64_t id) const { return id >= 0 && id < vocabulary_; }
  Json::Object::const_iterator named(std::string_view name) const {
    return std::ranges::find(named_, name, &Json::Object::value_type::first);
  }
  std::optional<std::int64_t> id_of(std::string_view use) const {
    const auto text = named(fmt::format("{}_token", use));
    std::optional<std::int64_t> id;
    if (tokenizer_ != nullptr && text != named_.end()) id = data::token_of(*tokenizer_, text->second.string());
    if (id) return is_token(*id) ? id : std::nullopt;
    const std::vector<std::int64_t> ids = arch::huggingface::token_ids(ids_, fmt::format("{}_token_id", use), "config.json");
    return !ids.empty() && is_token(ids.front()) ? std::optional(ids.front()) : std::nullopt;
  }
  std::string shown(std::int64_t id) const {
    const bool known = tokenizer_ != nullptr && tokenizer_->has(static_cast<std::int32_t>(id));
    return known ? Json(tokenizer_->bytes(static_cast<std::int32_t>(id))).dump() : fmt::format("token {}", id);
  }
  /// Warns where llama.cpp has tokens that the model's own files do not name. No file can say that there is none: then llama.cpp
  /// takes one of its own (llama_vocab::impl::load).
  void warn_of_others(std::string_view kind, const std::string& chat, std::optional<std::int64_t> begin, Log& log) const {
    if (kind == "none") return;
    const bool pieces = kind == data::sentencepiece_model;
    const std::int64_t first = begin.value_or(pieces ? 1 : 11), last = !ends.empty() ? ends.front() : pieces ? 2 : 11;
    for (const auto& [name, id] : {std::pair("bos_token", first), {"eos_token", last}}) {
      if (chat.find(name) != std::string::npos && named(name) == named_.end() && is_token(id))
        log.warning(fmt::format("the chat template writes {}, and tokenizer_config.json names none: in llama.cpp it is {}", name,
                                shown(id)));
    }
    if (ends.empty() && is_token(last))
      log.warning(fmt::format("no token ends the model's texts (\"eos_token_id\"), and llama.cpp ends them at {}", shown(last)));
  }

  const Json& ids_;
  const data::Tokenizer* tokenizer_;
  std::int64_t vocabulary_;
  Json::Object named_;
};

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
  const SpecialTokens special(extras, tokenizer.get(), config.vocabulary);
  const std::string chat = chat_template(extras.texts, special.config, "chat_template.jinja", "default");
  special.write(files.pairs, chat, log);
  if (!chat.empty()) files.pairs.set("tokenizer.chat_template", chat);
  const std::string tools = chat_template(extras.texts, special.config, "additional_chat_templates/tool_use.jinja", "tool_use");
  if (!tools.empty())
    files.pairs.set("tokenizer.chat_templates", Json::Array{"tool_use"}).set("tokenizer.chat_template.tool_use", tools);
  files.modelfile = modelfile_of(chat, tokenizer.get(), special.ends);
  return files;
}

}  // namespace lockstep::app
