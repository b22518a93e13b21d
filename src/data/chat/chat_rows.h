#pragma once

// The forms in which people keep conversations: a JSON object each, known by its members.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "data/chat/chat_template.h"

namespace lockstep::data {

enum class RowForm : std::uint8_t {
  plain,        ///< none of those below: texts, and prompts with completions
  messages,     ///< "messages": role, content
  share_gpt,    ///< "conversations": from, value
  alpaca,       ///< "instruction", "input", "output"
  completion,   ///< "prompt" and "completion" as lists of messages
  preferences,  ///< "chosen" and "rejected"
};

/// "messages (role, content)".
std::string_view name_of(RowForm form);
/// A row of it, for remedies.
std::string_view example_of(RowForm form);
/// The form of a row. Its members are compared in a fixed order, because published rows often fit several forms.
RowForm form_of(const Json& object);
/// Whether a row says which of its messages are the completion.
constexpr bool has_completion(RowForm form) {
  return form == RowForm::alpaca || form == RowForm::completion || form == RowForm::preferences;
}

struct ChatRow {
  Conversation conversation;
  std::size_t prompt = 0;  ///< messages before the completion, where the form has one
};

/// A member that says something; null where there is none, or it is null: tables that became rows have such members.
const Json* member_of(const Json& object, std::string_view key);
/// Whether a row's member of that name is read.
bool reads(RowForm form, std::string_view key);

/// The member that a row has its system's message in, beside what it says: "system" or "system_prompt"; empty: none.
std::string_view system_member(const Json& object);

/// A row of any form but `plain` and `preferences`. Contents are texts: lists of text parts are joined, with `between`. A
/// system_member() comes first. Variables are "tools", "documents" and the members of "chat_template_kwargs". Throws UserError,
/// without a place, that names the member.
ChatRow chat_row(const Json& object, RowForm form, std::string_view between);

/// The template's own variables in an object's "chat_template_kwargs". Throws UserError for a name that is set otherwise.
Json::Object template_variables(const Json& object);

/// "a string", "an array".
std::string_view kind_of(const Json& value);

}  // namespace lockstep::data
