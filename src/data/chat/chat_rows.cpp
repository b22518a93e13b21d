#include "data/chat/chat_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/text/visible.h"
#include "data/chat/message.h"
#include "data/text/documents.h"

namespace lockstep::data {
namespace {

struct FormRow {
  RowForm form;
  std::string_view name, first, second;  // two members that a row of the form has; none: any object
  bool lists = false;                    // they are lists
  const char* example;
};
// In order: a row of preferences often has "messages", one of messages a "prompt", and one of Alpaca's a "text".
constexpr std::array<FormRow, 7> forms = {{
    {RowForm::preferences, "preferences (prompt, chosen, rejected)", "chosen", "rejected", false,
     R"({"prompt": [{"role": "user", "content": "Hi"}], "chosen": [{"role": "assistant", "content": "Hello."}], )"
     R"("rejected": [{"role": "assistant", "content": "Go."}]}, or texts in place of the lists)"},
    {RowForm::preferences, "OpenAI's preferences", "preferred_output", "non_preferred_output", false, ""},
    {RowForm::messages, "messages (role, content)", "messages", "messages", false,
     R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]})"},
    {RowForm::share_gpt, "ShareGPT (conversations: from, value)", "conversations", "conversations", false,
     R"({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello."}]})"},
    {RowForm::alpaca, "Alpaca (instruction, input, output)", "instruction", "output", false,
     R"({"instruction": "Greet.", "input": "", "output": "Hello."})"},
    {RowForm::completion, "prompts and completions as messages", "prompt", "completion", true,
     R"({"prompt": [{"role": "user", "content": "Hi"}], "completion": [{"role": "assistant", "content": "Hello."}]})"},
    {RowForm::plain, "texts, or prompts with completions", "", "", false, ""},
}};

const FormRow& row_of(RowForm form) { return *std::ranges::find(forms, form, &FormRow::form); }

constexpr std::string_view calls_role = "function_call";  // a role, or a member, whose value is a call: {"name", "arguments"}
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> roles = {{
    {"human", "user"},
    {"user", "user"},
    {"gpt", "assistant"},
    {"assistant", "assistant"},
    {"model", "assistant"},
    {"chatgpt", "assistant"},
    {"bing", "assistant"},
    {"bard", "assistant"},
    {calls_role, "assistant"},
    {"system", "system"},
    {"tool", "tool"},
    {"observation", "tool"},
    {"function_response", "tool"},
}};

bool holds_nothing(const Json& value) {
  return (value.is_string() && value.string().empty()) || (value.is_array() && value.array().empty());
}

// Reads one row, and says of which form it should be.
class RowReader {
 public:
  RowReader(const Json& object, RowForm form, std::string_view between) : object_(object), form_(form), between_(between) {}

  ChatRow read() const {
    refuse_verdict(object_);
    refuse_other_media();
    ChatRow row;
    Json::Array& messages = row.conversation.messages;
    std::vector<bool>& untaught = row.conversation.untaught;
    const std::string_view system = system_member(object_);
    if (!system.empty()) add_text(messages, "system", system, "");
    switch (form_) {
      case RowForm::messages:
        add_list(messages, untaught, "messages");
        break;
      case RowForm::share_gpt:
        add_list(messages, untaught, "conversations");
        break;
      case RowForm::alpaca:
        if (const Json* history = member_of(object_, "history"); history != nullptr && !holds_nothing(*history))
          refuse("\"history\" is not read: write its turns as messages");
        add_text(messages, "user", "instruction", "input");
        row.prompt = messages.size();
        add_text(messages, "assistant", "output", "");
        break;
      default:
        add_list(messages, untaught, "prompt");
        row.prompt = messages.size();
        add_list(messages, untaught, "completion");
    }
    if (!system.empty()) settle_system(row, system);
    add_variables(row.conversation.variables);
    return row;
  }

 private:
  [[noreturn]] void refuse(std::string message) const {
    throw UserError(std::move(message), fmt::format("a row is {}", example_of(form_)));
  }

  // Answers speak of pictures and sounds, which a model that reads text does not get.
  void refuse_other_media() const {
    for (const char* key : {"image", "images", "video", "videos", "audio", "audios"}) {
      const Json* media = member_of(object_, key);
      if (media == nullptr || holds_nothing(*media)) continue;
      throw UserError(fmt::format("its \"{}\" would not be read: text alone is", key),
                      "leave such rows out; or the member, where the text says all");
    }
  }

  const std::string& text(const Json* value, std::string_view what) const {
    if (value == nullptr) refuse(fmt::format("{} is missing", what));
    if (!value->is_string()) refuse(fmt::format("{} is {}, not a string", what, kind_of(*value)));
    return value->string();
  }

  // Some rows say their system's message twice: in the list, and in a member.
  void settle_system(ChatRow& row, std::string_view member) const {
    Json::Array& messages = row.conversation.messages;
    const auto is_system = [](const Json& message) { return message.at("role").string() == "system"; };
    if (std::ranges::count_if(messages, is_system) < 2) return;
    if (messages[0].dump() != messages[1].dump())
      refuse(fmt::format("\"{}\" stands beside another message of the system: which is meant?", member));
    messages.erase(messages.begin());
    if (row.prompt > 0) --row.prompt;
    if (std::vector<bool>& untaught = row.conversation.untaught; !untaught.empty()) untaught.erase(untaught.begin());
  }

  // A message of one member's text, or of two with a blank line between them. One without a text is none, but for an answer.
  void add_text(Json::Array& messages, std::string_view role, std::string_view key, std::string_view more_key) const {
    std::string content = text(object_.find(key), fmt::format("\"{}\"", key));
    if (const Json* more = more_key.empty() ? nullptr : object_.find(more_key); more != nullptr && !more->is_null()) {
      const std::string& rest = text(more, fmt::format("\"{}\"", more_key));
      if (!rest.empty()) content += (content.empty() ? "" : "\n") + rest;
    }
    if (content.empty() && role == "system") return;
    messages.emplace_back(Json::Object{{"role", role}, {"content", std::move(content)}});
  }

  void add_list(Json::Array& messages, std::vector<bool>& untaught, std::string_view key) const {
    const Json& list = object_.at(key);
    if (!list.is_array()) refuse(fmt::format("\"{}\" is {}, not a list of messages", key, kind_of(list)));
    if (list.array().empty()) refuse(fmt::format("\"{}\" has no message", key));
    for (std::size_t i = 0; i < list.array().size(); ++i) {
      const std::string what = fmt::format("\"{}\", message {}", key, i + 1);
      messages.push_back(message(list.array()[i], what));
      if (is_taught(list.array()[i], messages.back(), what)) continue;
      untaught.resize(messages.size());
      untaught.back() = true;
    }
  }

  // As OpenAI's files ("weight", 0 or 1), LLaMA-Factory's ("loss_weight") and axolotl's ("train", "train_detail") say it.
  bool is_taught(const Json& given, const Json& message, const std::string& what) const {
    bool off = false;
    for (const char* key : {"weight", "loss_weight"}) {
      const Json* weight = given.find(key);
      if (weight == nullptr || weight->is_null()) continue;
      if (!weight->is_number() || (weight->number() != 0 && weight->number() != 1))
        refuse(fmt::format("{}: \"{}\" is {}, neither 0 nor 1", what, key, weight->dump()));
      off = off || weight->number() == 0;
    }
    const Json* train = given.find("train");
    if (train != nullptr && !train->is_null() && !train->is_bool())
      refuse(fmt::format("{}: \"train\" is {}, neither true nor false", what, train->dump()));
    if (const Json* parts = given.find("train_detail"); parts != nullptr && !parts->is_null())
      refuse(what + ": \"train_detail\" teaches parts of a message, which is not done");
    if (train != nullptr && train->is_bool() && train->boolean() && !is_assistant(message))
      refuse(fmt::format("{}: \"train\" is true, and its role is \"{}\": turns of the assistant alone are taught", what,
                         visible(message.at("role").string())));
    return !off && (train == nullptr || !train->is_bool() || train->boolean());
  }

  Json message(const Json& given, const std::string& what) const {
    if (!given.is_object()) refuse(fmt::format("{} is {}, not an object", what, kind_of(given)));
    const Json* from = given.find("from");
    if (from == nullptr) {
      Json made = with_calls(given);
      text(given.find("role"), what + ": \"role\"");
      made.set("content", content(made, what));
      if (const Json* calls = member_of(made, "tool_calls")) {
        if (!calls->is_array()) refuse(fmt::format("{}: \"tool_calls\" is {}, not a list", what, kind_of(*calls)));
        made.set("tool_calls", with_arguments(calls->array()));
      }
      return made;
    }
    const std::string& name = text(from, what + ": \"from\"");
    const auto known = std::ranges::find(roles, name, &decltype(roles)::value_type::first);
    if (known == roles.end())
      refuse(fmt::format("{}: \"from\" is \"{}\", which is no role that is known: {}", what, visible(name),
                         fmt::join(roles | std::views::keys, ", ")));
    const std::string& value = text(given.find("value"), what + ": \"value\"");
    if (name != calls_role) {
      Json made = Json::Object{{"role", known->second}, {"content", value}};
      for (const auto& [key, more] : given.object()) {
        if (key != "from" && key != "value") made.set(key, more);
      }
      return made;
    }
    const Json call = object_in(value);
    if (call.is_null() || call.find("name") == nullptr || call.find("arguments") == nullptr)
      refuse(fmt::format(R"({}: "value" is no call: {{"name": ..., "arguments": ...}})", what));
    return Json::Object{{"role", known->second},
                        {"content", nullptr},
                        {"tool_calls", with_arguments({Json::Object{{"type", "function"}, {"function", call}}})}};
  }

  // OpenAI's older name of one call. Templates know the list alone.
  static Json with_calls(const Json& given) {
    Json made = given;
    const Json* call = member_of(given, calls_role);
    if (call == nullptr || member_of(given, "tool_calls") != nullptr) return made;
    made.set("tool_calls", Json::Array{Json::Object{{"type", "function"}, {"function", *call}}});
    made.set(std::string(calls_role), nullptr);
    return made;
  }

  /// The object that a text is; null where it is none.
  static Json object_in(const std::string& text) {
    try {
      Json value = Json::parse(text, "a call");
      return value.is_object() ? value : Json();
    } catch (const UserError&) {
      return {};
    }
  }

  // OpenAI's arguments of a call are the text of an object. Templates want the object, and would write a text within quotes.
  static Json with_arguments(Json::Array calls) {
    for (Json& call : calls) {
      if (!call.is_object()) continue;
      Json function = function_of(call);
      const Json* arguments = function.find("arguments");
      if (arguments == nullptr || !arguments->is_string()) continue;
      Json object = object_in(arguments->string());
      if (!object.is_null()) set_function(call, function.set("arguments", std::move(object)));
    }
    return calls;
  }

  // A text; null beside calls of tools.
  Json content(const Json& given, const std::string& what) const {
    const Json *found = given.find("content"), *calls = member_of(given, "tool_calls");
    if ((found == nullptr || found->is_null()) && calls != nullptr && !holds_nothing(*calls)) return nullptr;
    if (found == nullptr || !found->is_array()) return text(found, what + ": \"content\"");
    std::string joined;
    for (const Json& part : found->array()) {
      const Json* kind = part.is_object() ? part.find("type") : nullptr;
      if (kind == nullptr || !kind->is_string() || kind->string() != "text")
        refuse(fmt::format("{}: \"content\" has a part that is no text", what));
      if (&part != &found->array().front()) joined += between_;
      const Json* value = part.find("value");  // LLaMA-Factory's name
      joined += text(value != nullptr ? value : part.find("text"), what + ": \"text\"");
    }
    return joined;
  }

  void add_variables(Json::Object& variables) const {
    for (const char* key : {"tools", "documents"}) {
      const Json* value = member_of(object_, key);
      if (value == nullptr || holds_nothing(*value)) continue;
      Json list = value->is_string() ? Json::parse(value->string(), fmt::format("\"{}\"", key)) : *value;
      if (!list.is_array()) refuse(fmt::format("\"{}\" is {}, not a list", key, kind_of(list)));
      if (!list.array().empty()) variables.emplace_back(key, std::move(list));
    }
    const Json::Object more = template_variables(object_);
    variables.insert(variables.end(), more.begin(), more.end());
  }

  const Json& object_;
  RowForm form_;
  std::string_view between_;  // the text parts of a content
};

}  // namespace

const Json* member_of(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value != nullptr && !value->is_null() ? value : nullptr;
}

std::string_view system_member(const Json& object) {
  for (const char* key : {"system", "system_prompt"}) {
    if (member_of(object, key) != nullptr) return key;
  }
  return "";
}

bool reads(RowForm form, std::string_view key) {
  const auto any = [&](std::initializer_list<std::string_view> keys) { return std::ranges::find(keys, key) != keys.end(); };
  if (key == row_of(form).first || key == row_of(form).second || any({"system", "system_prompt"})) return true;
  if (form == RowForm::plain) return any({"text", "prompt", "completion"});
  const bool pairs = form == RowForm::preferences;
  if (any({"prompt", "conversations", "messages", "instruction", "preferred_output", "non_preferred_output"})) return pairs;
  if (any({"input", "history"})) return pairs || form == RowForm::alpaca;
  return any({"tools", "documents", "chat_template_kwargs"});
}

std::string_view name_of(RowForm form) { return row_of(form).name; }
std::string_view example_of(RowForm form) { return row_of(form).example; }

RowForm form_of(const Json& object) {
  const auto fits = [&](const FormRow& row) {
    if (row.first.empty()) return true;
    const Json *first = member_of(object, row.first), *second = member_of(object, row.second);
    if (row.lists) return (first != nullptr && first->is_array()) || (second != nullptr && second->is_array());
    return first != nullptr && second != nullptr;
  };
  return std::ranges::find_if(forms, fits)->form;
}

Json::Object template_variables(const Json& object) {
  const Json* more = member_of(object, "chat_template_kwargs");
  if (more == nullptr) return {};
  if (!more->is_object()) {
    throw UserError(fmt::format("\"chat_template_kwargs\" is {}, not an object", kind_of(*more)),
                    R"(write {"enable_thinking": false})");
  }
  // What transformers' apply_chat_template() takes by a name of its own, and so not as a variable.
  for (const char* name : {"messages", "conversation", "tools", "documents", "chat_template", "add_generation_prompt",
                           "continue_final_message", "tokenize"}) {
    if (more->find(name) != nullptr) {
      throw UserError(fmt::format("\"chat_template_kwargs\" has \"{}\", which is no variable of its own", name),
                      "leave it out; \"messages\", \"tools\" and \"documents\" stand beside \"chat_template_kwargs\"");
    }
  }
  return more->object();
}

ChatRow chat_row(const Json& object, RowForm form, std::string_view between) { return RowReader(object, form, between).read(); }

std::string_view kind_of(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_bool()) return "true or false";
  if (value.is_number()) return "a number";
  if (value.is_string()) return "a string";
  return value.is_array() ? "an array" : "an object";
}

}  // namespace lockstep::data
