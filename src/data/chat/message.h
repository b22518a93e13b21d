#pragma once

// What a message of a conversation says, beside its role.

#include <string_view>

#include "base/json.h"

namespace lockstep::data {

/// A member that is a string, without white space around it; "" where there is none.
std::string_view text_of_member(const Json& message, std::string_view key);
/// The thinking of a message: in its own member, or at the start of the content.
std::string_view thinking_of(const Json& message);
/// Whether the model wrote the message.
bool is_assistant(const Json& message);
/// What a call of a tool calls: its "function", or the call itself, which some write without one.
const Json& function_of(const Json& call);
void set_function(Json& call, Json function);
/// The name of the first function that a message calls.
std::string_view called_by(const Json& message);
/// Gives that function another name. False where the message calls none.
bool set_called_by(Json& message, std::string_view name);

}  // namespace lockstep::data
