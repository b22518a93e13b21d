#include "data/chat/message.h"

#include <utility>

#include "base/text/trimmed.h"

namespace lockstep::data {

std::string_view text_of_member(const Json& message, std::string_view key) {
  const Json* value = message.find(key);
  return value != nullptr && value->is_string() ? trimmed(value->string()) : std::string_view();
}

std::string_view thinking_of(const Json& message) {
  for (const char* key : {"reasoning_content", "reasoning", "thinking"}) {
    if (const std::string_view text = text_of_member(message, key); !text.empty()) return text;
  }
  const std::string_view content = text_of_member(message, "content");
  constexpr std::string_view start = "<think>", stop = "</think>";
  const std::size_t end = content.find(stop), begin = content.find(start);
  return end == content.npos || begin > end ? "" : trimmed(content.substr(begin + start.size(), end - begin - start.size()));
}

bool is_assistant(const Json& message) { return message.at("role").string() == "assistant"; }

const Json& function_of(const Json& call) {
  const Json* function = call.find("function");
  return function != nullptr && function->is_object() ? *function : call;
}

void set_function(Json& call, Json function) {
  if (&function_of(call) == &call) {
    call = std::move(function);
  } else {
    call.set("function", std::move(function));
  }
}

std::string_view called_by(const Json& message) {
  const Json* calls = message.find("tool_calls");
  if (calls == nullptr || !calls->is_array() || calls->array().empty() || !calls->array().front().is_object()) return {};
  return text_of_member(function_of(calls->array().front()), "name");
}

bool set_called_by(Json& message, std::string_view name) {
  if (called_by(message).empty()) return false;
  Json::Array changed = message.at("tool_calls").array();
  Json function = function_of(changed.front());
  set_function(changed.front(), function.set("name", name));
  message.set("tool_calls", std::move(changed));
  return true;
}

}  // namespace lockstep::data
