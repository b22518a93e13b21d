// Calls of tools in texts that come piece by piece.

#include "app/serve/tool_calls.h"

#include <gtest/gtest.h>

namespace lockstep::app {
namespace {

/// "text|name(arguments)": the same however the text is cut.
std::string read(CallForm form, const std::string& text) {
  std::string first;
  for (std::size_t size : {text.size() + 1, std::size_t{1}, std::size_t{3}}) {
    CallReader reader(form);
    std::string made;
    for (std::size_t at = 0; at < text.size(); at += size) made += reader.add(text.substr(at, size));
    made += reader.end();
    for (const ToolCall& call : reader.calls()) made += "|" + call.name + "(" + call.arguments + ")";
    if (first.empty()) first = made;
    EXPECT_EQ(made, first) << "in pieces of " << size;
  }
  return first;
}

TEST(ToolCalls, StandBetweenMarks) {
  const auto hermes = [](const std::string& text) { return read(CallForm::hermes, text); };
  EXPECT_EQ(hermes("no call"), "no call");
  EXPECT_EQ(hermes("a <b> <tool_cal"), "a <b> <tool_cal");
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"\u00e9\"}}\n</tool_call>";
  EXPECT_EQ(hermes(call), "|f({\"a\":\"\u00e9\"})");
  EXPECT_EQ(hermes("so: " + call + "\n" + call), "so: |f({\"a\":\"\u00e9\"})|f({\"a\":\"\u00e9\"})");
  EXPECT_EQ(hermes(call.substr(0, call.size() - 12)), "|f({\"a\":\"\u00e9\"})") << "the last one needs no end";
  for (const char* none : {"a<tool_call>", "<tool_call>{\"name\": \"f\"}</tool_call>", "<tool_call>{\"name\": \"f\", \"argum",
                           "<tool_call>[]</tool_call>", "<tool_call>{\"name\": 1, \"arguments\": {}}</tool_call>"})
    EXPECT_EQ(hermes(none), none);
  EXPECT_EQ(hermes(call + "<tool_call>x</tool_call>"), call + "<tool_call>x</tool_call>") << "all or none";
}

TEST(ToolCalls, AreAllThatATextIs) {
  const auto llama = [](const std::string& text) { return read(CallForm::llama, text); };
  const std::string call = R"({"name": "f", "parameters": {"a": "x;y"}})", made = R"(|f({"a":"x;y"}))";
  EXPECT_EQ(llama(call), made);
  EXPECT_EQ(llama("\n" + call), made);
  EXPECT_EQ(llama("<|python_tag|>" + call + "; " + call), made + made);
  EXPECT_EQ(llama(R"({"name": "f", "arguments": {}})"), "|f({})");
  for (const std::string& none : {"so: " + call, std::string("{\"a\": 1}"), std::string("<b>"), call + " so", std::string("{")})
    EXPECT_EQ(llama(none), none);
}

TEST(ToolCalls, AreReadInTheFormThatATemplateAsksFor) {
  const auto form = [](const char* source) { return call_form(data::ChatTemplate(source, "t")); };
  EXPECT_EQ(form("{{ '<tool_call>' }}"), CallForm::hermes);
  EXPECT_EQ(form(R"({{ 'in the format {"name": function name, "parameters": dictionary of' }})"), CallForm::llama);
  EXPECT_EQ(form("{{ '<tool_call><function=f>' }}"), CallForm::none);
  EXPECT_EQ(form("{{ tools }}"), CallForm::none);
  CallReader reader(CallForm::none);
  EXPECT_EQ(reader.add("{<tool_call>") + reader.end(), "{<tool_call>");
}

}  // namespace
}  // namespace lockstep::app
