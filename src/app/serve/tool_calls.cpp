#include "app/serve/tool_calls.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/json.h"

namespace lockstep::app {
namespace {

constexpr std::string_view begin_mark = "<tool_call>", end_mark = "</tool_call>", python_tag = "<|python_tag|>",
                           blanks = " \t\r\n";

std::optional<ToolCall> call_in(std::string_view text, CallForm form) {
  try {
    const Json call = Json::parse(text, "a call");
    const Json* arguments = call.find("arguments");
    if (arguments == nullptr && form == CallForm::llama) arguments = call.find("parameters");
    if (arguments != nullptr) return ToolCall{call.at("name").string(), arguments->dump()};
  } catch (const UserError&) {
    return {};  // it is no JSON, or no call
  }
  return {};
}

/// Empty where a part is none.
std::vector<ToolCall> marked_calls(std::string_view text) {
  std::vector<ToolCall> calls;
  for (std::size_t at = 0; (at = text.find(begin_mark, at)) != text.npos;) {
    at += begin_mark.size();
    const std::size_t end = std::min(text.find(end_mark, at), text.size());
    std::optional<ToolCall> call = call_in(text.substr(at, end - at), CallForm::hermes);
    if (!call) return {};
    calls.push_back(std::move(*call));
    at = end;
  }
  return calls;
}

/// A semicolon may also stand within an argument.
std::vector<ToolCall> bare_calls(std::string_view text) {
  std::vector<ToolCall> calls;
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  if (text.starts_with(python_tag)) text.remove_prefix(python_tag.size());
  for (std::size_t from = 0; !text.empty();) {
    const std::size_t end = std::min(text.find(';', from), text.size());
    std::optional<ToolCall> call = call_in(text.substr(0, end), CallForm::llama);
    if (!call && end == text.size()) return {};
    from = call ? 0 : end + 1;
    if (!call) continue;
    calls.push_back(std::move(*call));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return calls;
}

}  // namespace

CallForm call_form(const data::ChatTemplate& writes) {
  // Others write the names of arguments in XML: Qwen3-Coder's, and GLM's.
  if (writes.mentions("<function=") || writes.mentions("<arg_key>")) return CallForm::none;
  if (writes.mentions(begin_mark)) return CallForm::hermes;
  return writes.mentions(R"({"name": function name, "parameters":)") ? CallForm::llama : CallForm::none;
}

/// How many bytes of what is held are no call, whatever follows.
std::size_t CallReader::certain() const {
  if (form_ == CallForm::none) return held_.size();
  if (form_ == CallForm::llama) {
    const std::string_view text = std::string_view(held_).substr(std::min(held_.find_first_not_of(blanks), held_.size()));
    const bool perhaps = text.starts_with('{') || text.starts_with(python_tag) || python_tag.starts_with(text);
    return perhaps ? 0 : held_.size();
  }
  if (const std::size_t at = held_.find(begin_mark); at != held_.npos) return at;
  std::size_t open = std::min(held_.size(), begin_mark.size() - 1);
  while (!held_.ends_with(begin_mark.substr(0, open))) --open;
  return held_.size() - open;
}

std::string CallReader::add(std::string_view piece) {
  held_ += piece;
  const std::size_t count = certain();
  if (count > 0 && form_ == CallForm::llama) form_ = CallForm::none;  // a text that begins otherwise calls nothing
  std::string text = held_.substr(0, count);
  held_.erase(0, count);
  return text;
}

std::string CallReader::end() {
  if (form_ != CallForm::none) calls_ = form_ == CallForm::hermes ? marked_calls(held_) : bare_calls(held_);
  return calls_.empty() ? std::move(held_) : "";
}

}  // namespace lockstep::app
