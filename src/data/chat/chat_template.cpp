#include "data/chat/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text/visible.h"
#include "data/chat/message.h"
#include "io/gguf.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t most_bytes = std::uint64_t{16} << 20;
constexpr const char* more_templates = "additional_chat_templates";

struct Named {
  std::string_view name, source;
};
constexpr std::array<Named, 3> known = {{
    {"chatml",
     "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}{% if message['role'] == 'assistant' %}"
     "{% generation %}{{ (message['content'] or '') + '<|im_end|>\\n' }}{% endgeneration %}{% else %}"
     "{{ (message['content'] or '') + '<|im_end|>\\n' }}{% endif %}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"llama3",
     "{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}"
     "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] | trim + '<|eot_id|>' }}{% endgeneration %}"
     "{% else %}{{ message['content'] | trim + '<|eot_id|>' }}{% endif %}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"},
    {"zephyr",
     "{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' }}{% if message['role'] == 'assistant' %}"
     "{% generation %}{{ (message['content'] or '') + eos_token + '\\n' }}{% endgeneration %}{% else %}"
     "{{ (message['content'] or '') + eos_token + '\\n' }}{% endif %}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"},
}};

// As transformers 5 hands messages to templates (utils/chat_template_utils.py, _normalize_chat_messages and
// _alias_reasoning_fields): without members that are null, and with thinking under the names that templates read.
Json normalised(const Json& message) {
  Json::Object members;
  for (const auto& member : message.object()) {
    if (!member.second.is_null()) members.push_back(member);
  }
  const auto named = [&](std::string_view key) { return std::ranges::find(members, key, &Json::Object::value_type::first); };
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (named(name) == members.end()) continue;
    const Json thinking = named(name)->second;
    if (named("thinking") == members.end()) members.emplace_back("thinking", thinking);
    std::rotate(members.begin(), named("thinking"), named("thinking") + 1);
    if (named("reasoning_content") == members.end()) members.emplace_back("reasoning_content", thinking);
    break;
  }
  return members;
}

}  // namespace

Conversation conversation_from_json(const Json& json, std::string_view what) {
  Conversation made;
  const Json* messages = json.is_array() ? &json : json.is_object() ? json.find("messages") : nullptr;
  if (messages == nullptr || !messages->is_array())
    throw UserError(fmt::format("{}: a list of messages is expected, or an object with \"messages\"", what),
                    R"(write [{"role": "user", "content": "Hi"}])");
  made.messages = messages->array();
  for (std::size_t i = 0; i < made.messages.size(); ++i) {
    const Json* role = made.messages[i].is_object() ? made.messages[i].find("role") : nullptr;
    if (role == nullptr || !role->is_string())
      throw UserError(fmt::format("{}: message {} has no \"role\"", what, i + 1), R"(write {"role": "user", "content": "Hi"})");
  }
  if (json.is_object()) {
    for (const auto& [key, value] : json.object()) {
      if (key != "messages") made.variables.emplace_back(key, value);
    }
  }
  return made;
}

ChatTemplate::ChatTemplate(std::string_view source, std::string name, Json::Object tokens) : tokens_(std::move(tokens)) {
  templates_.emplace_back(source, std::move(name));
}

bool ChatTemplate::add_from(const Json& config, const std::string& name) {
  tokens_ = tokens_of(config);
  const Json* found = config.find("chat_template");
  if (found == nullptr) return false;
  if (found->is_string()) templates_.emplace_back(found->string(), name);
  for (const std::string_view use : {"default", "tool_use"}) {
    for (const Json& one : found->is_array() ? found->array() : Json::Array{}) {
      const bool wanted = one.at("name").string() == use && (use == "default" || !templates_.empty());
      if (wanted) templates_.emplace_back(one.at("template").string(), name);
    }
  }
  return !templates_.empty();
}

const jinja::Template& ChatTemplate::template_for(const Conversation& conversation) const {
  const auto tools = std::ranges::find(conversation.variables, "tools", &Json::Object::value_type::first);
  return tools != conversation.variables.end() && !tools->second.is_null() ? templates_.back() : templates_.front();
}

ChatTemplate ChatTemplate::open(const std::string& file_or_name) {
  const io::Path path = file_or_name;
  const auto named = std::ranges::find(known, file_or_name, &Named::name);
  if (named != known.end() && !io::exists(path)) return {named->source, file_or_name};
  const auto demand = [](std::optional<ChatTemplate> found, const io::Path& where) {
    if (found) return std::move(*found);
    throw UserError(fmt::format("{}: it has no chat_template", visible(where.string())),
                    "name the file of a template, or one of: chatml, llama3, zephyr");
  };
  if (io::is_folder(path) || io::is_gguf(path)) {
    std::optional<ChatTemplate> found = from_texts(texts_of(path));
    const io::Path file = io::is_folder(path) ? path / ModelTexts::config : path;
    if (!found) io::File::open_to_read(file);  // says what is missing
    return demand(std::move(found), file);
  }
  io::Path folder = io::folder_of(path);
  if (path.filename() == ModelTexts::config) {
    ModelTexts texts = texts_of(folder);
    texts.files.set(ModelTexts::chat, nullptr);
    return demand(from_texts(texts), path);
  }
  const std::string text = io::read_document(path, most_bytes), said = visible(path.string());
  if (path.extension() == ".json") {
    ChatTemplate made;
    return demand(made.add_from(Json::parse(text, said), said) ? std::optional(std::move(made)) : std::nullopt, path);
  }
  ChatTemplate made(text, said);
  const bool additional = folder.filename() == more_templates;
  if (additional) folder = io::folder_of(folder);
  if (additional || path.filename() == ModelTexts::chat) made.take_tokens(texts_of(folder));
  return made;
}

std::optional<ChatTemplate> ChatTemplate::from_texts(const ModelTexts& texts) {
  const auto name = [&](const char* file) {
    const io::Path path = io::Path(texts.where) / file;
    return visible(io::exists(path) ? path.string() : texts.where);
  };
  ChatTemplate made;
  const Json config = config_of(texts), *const source = texts.find(ModelTexts::chat),
             *const tools = texts.find(ModelTexts::tools);
  if (source == nullptr || !source->is_string()) {
    if (!made.add_from(config, name(ModelTexts::config))) return {};
    return made;
  }
  made.tokens_ = tokens_of(config);
  made.templates_.emplace_back(source->string(), name(ModelTexts::chat));
  if (tools != nullptr) made.templates_.emplace_back(tools->string(), name(ModelTexts::tools));
  return made;
}

void ChatTemplate::set_token(const std::string& name, std::string text) {
  std::erase_if(tokens_, [&](const auto& token) { return token.first == name; });
  tokens_.emplace_back(name, std::move(text));
}

bool ChatTemplate::take_tokens(const ModelTexts& texts) {
  for (const auto& [token, text] : tokens_of(config_of(texts))) set_token(token, text.string());
  return texts.find(ModelTexts::config) != nullptr || texts.find(ModelTexts::map) != nullptr;
}

bool ChatTemplate::mentions(std::string_view text) const {
  return std::ranges::any_of(templates_,
                             [&](const jinja::Template& one) { return one.source().find(text) != std::string::npos; });
}

std::string_view ChatTemplate::between_parts(const std::tm& now) const {
  const auto written = [&](Json content) {
    try {
      return write({.messages = {Json::Object{{"role", "user"}, {"content", std::move(content)}}}}, Prompt::none, now);
    } catch (const UserError&) {
      return std::string();
    }
  };
  const std::string parts = written(Json::Array{Json::Object{{"type", "text"}, {"text", "0lockstep1"}}});
  return !parts.empty() && parts == written("0lockstep1") ? "" : "\n";
}

std::string ChatTemplate::answer_end(const std::tm& now) const {
  const std::string content = "0lockstep1";
  try {
    const ChatText made = teach({.messages = {Json::Object{{"role", "user"}, {"content", "a"}},
                                              Json::Object{{"role", "assistant"}, {"content", content}}}},
                                Prompt::none, now);
    if (made.taught.empty()) return "";
    const auto [begin, end] = made.taught.back();
    const std::size_t found = made.text.find(content, begin), from = found + content.size();
    return found != made.text.npos && from < end ? made.text.substr(from, end - from) : "";
  } catch (const UserError&) {
    return "";
  }
}

std::optional<std::size_t> ChatTemplate::left_out(const Conversation& conversation, const std::tm& now) const {
  Conversation marked = conversation;
  const auto mark = [](std::size_t i) { return fmt::format("lockstep{}message", i); };
  std::vector<std::size_t> looked_for;
  for (std::size_t i = 0; i < marked.messages.size(); ++i) {
    Json& message = marked.messages[i];
    // Some templates write calls in place of a content.
    if (text_of_member(message, "content").empty() || !called_by(message).empty()) continue;
    message.set("content", mark(i));
    looked_for.push_back(i);
  }
  std::string text;
  try {
    text = write(marked, Prompt::added, now);
  } catch (const UserError&) {
    return {};  // it reads contents
  }
  const auto found = std::ranges::find_if(looked_for, [&](std::size_t i) { return text.find(mark(i)) == text.npos; });
  return found == looked_for.end() ? std::nullopt : std::optional(*found);
}

bool ChatTemplate::lacks(const std::string& token) const {
  return mentions(token) && std::ranges::find(tokens_, token, &Json::Object::value_type::first) == tokens_.end();
}

jinja::Rendered ChatTemplate::render(const Json::Array& messages, const Conversation& conversation, Prompt prompt,
                                     const std::tm& now) const {
  Json::Object variables = tokens_;
  variables.emplace_back("tools", nullptr);
  variables.emplace_back("documents", nullptr);
  variables.insert(variables.end(), conversation.variables.begin(), conversation.variables.end());
  Json::Array given(messages.size());
  std::ranges::transform(messages, given.begin(), normalised);
  variables.emplace_back("messages", std::move(given));
  variables.emplace_back("add_generation_prompt", prompt == Prompt::added);
  return template_for(conversation).render(variables, {.now = now});
}

std::string ChatTemplate::write(const Conversation& conversation, Prompt prompt, const std::tm& now) const {
  return render(conversation.messages, conversation, prompt, now).text;
}

}  // namespace lockstep::data
