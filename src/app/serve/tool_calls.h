#pragma once

// Calls of tools in what a model writes, in the forms that vLLM's parsers hermes and llama3_json read (entrypoints/openai/
// tool_parsers).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/chat_template.h"

namespace lockstep::app {

enum class CallForm : std::uint8_t {
  none,
  hermes,  ///< <tool_call>{"name", "arguments"}</tool_call>, once or more, perhaps behind a text
  llama,   ///< {"name", "parameters"}, several with a semicolon between them, and no other text
};
/// The form that a template asks a model for.
CallForm call_form(const data::ChatTemplate& writes);

struct ToolCall {
  std::string name, arguments;  ///< the arguments as JSON
};

/// Parts a text that comes piece by piece into what it says and what it calls.
class CallReader {
 public:
  explicit CallReader(CallForm form) : form_(form) {}
  /// Returns what is no call for certain.
  std::string add(std::string_view piece);
  /// No more comes. Returns what looked like a call and is none.
  std::string end();
  const std::vector<ToolCall>& calls() const { return calls_; }

 private:
  std::size_t certain() const;
  CallForm form_;
  std::string held_;
  std::vector<ToolCall> calls_;
};

}  // namespace lockstep::app
