// What a server makes of conversations: roles, parts of contents, and tools.

#include "app/served_run.h"

namespace lockstep::app {
namespace {

class ServedChat : public ServedRun {
 protected:
  /// Serves by a template, which is read as it is.
  void start_with(const std::string& source, const char* run = "run") {
    io::replace_file(folder_ / "chat.jinja", source);
    start({"--chat-template", (folder_ / "chat.jinja").string()}, run);
  }
  HttpClient::Answer chat(const std::string& members) const {
    return ask("/v1/chat/completions", R"({"max_tokens": 9, "seed": 2, )" + members + "}");
  }
  /// The template has written `prompt`.
  void expect_prompt(const std::string& members, const std::string& prompt) const {
    const HttpClient::Answer answer = chat(members);
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(Json::parse(answer.body).at("choices").array()[0].at("message").at("content").string(),
              text_of(completion(R"({"max_tokens": 9, "seed": 2, "prompt": )" + Json(prompt).dump() + "}")))
        << members;
  }
  void expect_refusal(const std::string& members, const std::string& says) const {
    const HttpClient::Answer answer = chat(members);
    EXPECT_EQ(answer.status, 400) << members;
    EXPECT_NE(answer.body.find(says), std::string::npos) << members << " -> " << answer.body;
  }
};

constexpr const char *plain = "{% for m in messages %}{{ m.role }} {{ m.content }}\n{% endfor %}",
                     *user = R"("messages": [{"role": "user", "content": "hi"}])",
                     *tools = R"(, "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}])";

TEST_F(ServedChat, ADeveloperIsTheSystemUnlessTheTemplateKnowsOne) {
  const char* messages = R"("messages": [{"role": "developer", "content": "fox"}])";
  start_with(plain);
  expect_prompt(messages, "system fox\n");
  server_->stop(SIGTERM);
  start_with(std::string("{# developer #}") + plain);
  expect_prompt(messages, "developer fox\n");
}

TEST_F(ServedChat, PartsOfAContentAreLines) {
  const char* messages =
      R"("messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])";
  start_with(plain);
  expect_prompt(messages, "user a\nb\n");
  server_->stop(SIGTERM);
  // It writes parts itself, one behind the other.
  start_with(
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}"
      "{% endfor %}{% endif %}{% endfor %}");
  expect_prompt(messages, "ab");
}

TEST_F(ServedChat, WhatTheTemplateWouldLeaveOutIsRefused) {
  start_with(plain);
  expect_refusal(std::string(user) + tools, "'tools': the chat template");
  expect_refusal(std::string(user) + R"(, "documents": [{"text": "a"}])", "'documents': the chat template");
  expect_refusal(
      R"("messages": [{"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}])",
      "'tool_calls': the chat template");
  for (const std::string name : {"function_call", "refusal", "audio"})
    expect_refusal(R"("messages": [{"role": "assistant", "content": "", ")" + name + R"(": {"name": "f"}}])",
                   "'" + name + "': the");
  expect_refusal(std::string(user) + R"(, "tool_choice": "required")", "'tool_choice' is");
  expect_prompt(std::string(user) + tools + R"(, "tool_choice": "none")", "user hi\n");
  server_->stop(SIGTERM);
  start_with(std::string("{% if tools %}tools {% endif %}") + plain);
  expect_refusal(std::string(user) + tools, "asks for calls in a form that is not read here");
  expect_prompt(std::string(user) + tools + R"(, "tool_choice": "none")", "user hi\n");
}

TEST_F(ServedChat, AMessageThatTheTemplateWouldLeaveOutIsRefused) {
  start_with("{% for m in messages %}{% if m.role in ['user', 'system'] %}{{ m.content }}\n{% endif %}{% endfor %}");
  expect_refusal(R"("messages": [{"role": "user", "content": "fox"}, {"role": "tool", "content": "dog"}])",
                 R"(does not write message 2, whose role is \"tool\")");
  expect_prompt(R"("messages": [{"role": "user", "content": "fox"}, {"role": "developer", "content": "dog"}])", "fox\ndog\n");
}

TEST_F(ServedChat, EffortIsTheTemplates) {
  start_with(std::string("{{ reasoning_effort }} ") + plain);
  expect_prompt(std::string(user) + R"(, "reasoning_effort": "low")", "low user hi\n");
  const std::string kwargs = std::string(user) + R"(, "chat_template_kwargs": {"reasoning_effort": "high"})";
  expect_prompt(kwargs, "high user hi\n");
  expect_refusal(kwargs + R"(, "reasoning_effort": "low")", "'reasoning_effort' is in 'chat_template_kwargs', too");
}

TEST_F(ServedChat, WhatTheServerSetsIsNoVariableOfATemplate) {
  start_with(std::string("{{ bos_token }}") + plain);
  for (const std::string name : {"add_generation_prompt", "messages", "tools", "documents", "continue_final_message"}) {
    const HttpClient::Answer answer = chat(std::string(user) + R"(, "chat_template_kwargs": {")" + name + "\": false}");
    EXPECT_EQ(answer.status, 400) << name;
    const Json error = Json::parse(answer.body).at("error");
    EXPECT_EQ(error.at("param").string(), "chat_template_kwargs");
    EXPECT_NE(error.at("message").string().find("has \"" + name + "\""), std::string::npos) << answer.body;
  }
  // Tokens are variables, as in transformers.
  expect_prompt(std::string(user) + R"(, "chat_template_kwargs": {"bos_token": "a"})", "auser hi\n");
}

/// Its model has learnt one text, which calls a tool behind "f:".
class ServedTools : public ServedChat {
 protected:
  void SetUp() override {
    ServedChat::SetUp();
    if (IsSkipped()) return;
    std::string text;
    for (int i = 0; i < 300; ++i) text += "f:ok<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>\n";
    io::replace_file(folder_ / "calls.txt", text);
    const std::string calls = (folder_ / "calls").string();
    ASSERT_EQ(lockstep({"prepare", folder_ / "calls.txt", "--tokenizer", "char", "--out", calls}).code, 0);
    ASSERT_EQ(lockstep(words("of_calls", {"data.dir=" + calls, "model.block_size=128", "model.n_embd=32", "train.max_iters=1200",
                                          "train.eval_interval=1200", "train.warmup_iters=20", "optimizer.learning_rate=0.003"}))
                  .code,
              0);
    start_with("{# tools, <tool_call> #}{% for m in messages %}{{ m.content }}{% endfor %}", "of_calls");
  }
  static std::string asked(const std::string& more) {
    return R"({"messages": [{"role": "user", "content": "f:"}], "temperature": 0, "stop": "\n")" + more + "}";
  }
};

TEST_F(ServedTools, CallsAreToldAsCallsWholeAndStreamed) {
  const Json whole = Json::parse(ask("/v1/chat/completions", asked(tools)).body).at("choices").array()[0];
  EXPECT_EQ(whole.at("finish_reason").string(), "tool_calls");
  EXPECT_EQ(whole.at("message").at("content").string(), "ok");
  ASSERT_EQ(whole.at("message").at("tool_calls").array().size(), 1U) << whole.dump();
  const Json& call = whole.at("message").at("tool_calls").array()[0];
  EXPECT_EQ(call.at("type").string(), "function");
  EXPECT_FALSE(call.at("id").string().empty());
  EXPECT_EQ(call.at("function").dump(), R"({"name":"f","arguments":"{\"a\":1}"})");
  // Without tools it is a text as any other.
  const Json text = Json::parse(ask("/v1/chat/completions", asked("")).body).at("choices").array()[0];
  EXPECT_EQ(text.at("message").at("content").string(), R"(ok<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>)");
  EXPECT_EQ(text.at("finish_reason").string(), "stop");

  std::istringstream lines(ask("/v1/chat/completions", asked(std::string(tools) + R"(, "stream": true)")).body);
  std::string content, finish;
  Json::Array calls;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("data: {")) continue;
    const Json choice = Json::parse(line.substr(6)).at("choices").array()[0], &delta = choice.at("delta");
    if (const Json* piece = delta.find("content")) content += piece->string();
    if (const Json* some = delta.find("tool_calls")) {
      EXPECT_TRUE(choice.at("finish_reason").is_null()) << "it comes behind them";
      calls.insert(calls.end(), some->array().begin(), some->array().end());
    }
    if (!choice.at("finish_reason").is_null()) finish = choice.at("finish_reason").string();
  }
  EXPECT_EQ(content, "ok");
  EXPECT_EQ(finish, "tool_calls");
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].at("index").integer(), 0);
  EXPECT_EQ(calls[0].at("function").dump(), call.at("function").dump());
}

}  // namespace
}  // namespace lockstep::app
