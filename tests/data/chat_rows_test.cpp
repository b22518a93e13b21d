// Rows of conversations, and what they are known by.

#include "data/chat/chat_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/chat/answer_pair.h"
#include "data/support.h"
#include "support/text.h"

namespace lockstep::data {
namespace {

ChatRow row_from(const std::string& line) {
  const Json object = Json::parse(line);
  return chat_row(object, form_of(object), "\n");
}
std::string messages_of(const std::string& line) { return Json(row_from(line).conversation.messages).dump(); }

TEST(ChatRows, AreKnownByTheirMembers) {
  const auto form = [](const char* line) { return form_of(Json::parse(line)); };
  EXPECT_EQ(form(R"({"messages": [], "prompt": "p", "text": ""})"), RowForm::messages);
  EXPECT_EQ(form(R"({"conversations": []})"), RowForm::share_gpt);
  EXPECT_EQ(form(R"({"instruction": "a", "output": "b", "text": "all"})"), RowForm::alpaca);
  EXPECT_EQ(form(R"({"prompt": [], "completion": []})"), RowForm::completion);
  EXPECT_EQ(form(R"({"prompt": "", "completion": []})"), RowForm::completion);
  EXPECT_EQ(form(R"({"prompt": "", "completion": ""})"), RowForm::plain);
  EXPECT_EQ(form(R"({"text": "", "messages": null, "conversations": null})"), RowForm::plain);
  EXPECT_EQ(form(R"({"messages": [], "chosen": null, "rejected": null})"), RowForm::messages);
  EXPECT_EQ(form(R"({"instruction": "a"})"), RowForm::plain);
  EXPECT_EQ(form(R"({"prompt": "", "chosen": [], "rejected": [], "messages": []})"), RowForm::preferences);
  EXPECT_EQ(form(R"({"input": {"messages": []}, "preferred_output": [], "non_preferred_output": []})"), RowForm::preferences);
  EXPECT_EQ(form(R"({"instruction": "a", "output": "b", "chosen": "c", "rejected": "d"})"), RowForm::preferences);
}

TEST(ChatRows, BecomeMessages) {
  const std::string both = R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes"}])";
  EXPECT_EQ(messages_of(R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]})"), both);
  EXPECT_EQ(messages_of(R"({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes"}]})"), both);
  EXPECT_EQ(messages_of(R"({"conversations": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]})"),
            both);
  EXPECT_EQ(messages_of(R"({"instruction": "Hi", "input": "", "output": "Yes"})"), both);
  EXPECT_EQ(messages_of(R"({"instruction": "Hi", "input": null, "output": "Yes", "history": []})"), both);
  EXPECT_EQ(
      messages_of(R"({"prompt": [{"role": "user", "content": "Hi"}], "completion": [{"role": "assistant", "content": "Yes"}]})"),
      both);
  EXPECT_EQ(messages_of(R"({"instruction": "Add.", "input": "1 2", "output": "3", "system": "S"})"),
            R"([{"role":"system","content":"S"},{"role":"user","content":"Add.\n1 2"},{"role":"assistant","content":"3"}])");
  EXPECT_EQ(messages_of(R"({"conversations": [{"from": "observation", "value": "{}"}], "system": "S"})"),
            R"([{"role":"system","content":"S"},{"role":"tool","content":"{}"}])");
  EXPECT_EQ(
      messages_of(R"({"conversations": [{"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"}]})"),
      R"([{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":{"x":1}}}]}])");
}

// Every form may have its system's message in a member of its own.
TEST(ChatRows, BeginWithTheSystemThatARowNames) {
  const std::string system = R"({"role":"system","content":"S"})",
                    turns = R"({"role":"user","content":"Hi"},{"role":"assistant","content":"Yes"})";
  for (const char* member : {"system", "system_prompt"}) {
    for (const std::string& row :
         {R"("messages": [)" + turns + "]", R"("messages": [)" + system + "," + turns + "]",
          R"("conversations": [)" + turns + "]", std::string(R"("instruction": "Hi", "output": "Yes")"),
          std::string(
              R"("prompt": [{"role": "user", "content": "Hi"}], "completion": [{"role": "assistant", "content": "Yes"}])")}) {
      EXPECT_EQ(messages_of(fmt::format(R"({{{}, "{}": "S"}})", row, member)), "[" + system + "," + turns + "]") << row;
      EXPECT_EQ(messages_of(fmt::format(R"({{{}, "{}": ""}})", row, member)).find("system") != std::string::npos,
                row.find("system") != std::string::npos);
    }
  }
  const ChatRow both = row_from(R"({"prompt": [{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}],
    "completion": [{"role": "assistant", "content": "No", "weight": 0}, {"role": "assistant", "content": "Yes"}], "system": "S"})");
  EXPECT_EQ(both.prompt, 2U);
  EXPECT_FALSE(both.conversation.teaches(2));
  EXPECT_TRUE(both.conversation.teaches(3));
  const std::string pair = R"({"prompt": [{"role": "user", "content": "Hi"}], "chosen": [{"role": "assistant", "content": "Yes"}],
    "rejected": [{"role": "assistant", "content": "No"}], "system": "S"})";
  for (const Json& row : {answer_pair(Json::parse(pair)).chosen, answer_pair(Json::parse(pair)).rejected})
    EXPECT_EQ(chat_row(row, RowForm::completion, "\n").conversation.messages.front().dump(), system);
  EXPECT_TRUE(contains(user_error([&] { row_from(R"({"messages": [)" + system + R"(], "system": "T"})"); }),
                       "\"system\" stands beside another message of the system"));
}

TEST(ChatRows, ArgumentsThatAreTheTextOfAnObjectAreTheObject) {
  const auto calls = [](const char* call) {
    return messages_of(fmt::format(R"({{"messages": [{{"role": "assistant", "tool_calls": [{}]}}]}})", call));
  };
  EXPECT_TRUE(contains(calls(R"({"function": {"name": "f", "arguments": "{\"x\": [1]}"}})"), R"("arguments":{"x":[1]})"));
  EXPECT_TRUE(contains(calls(R"({"name": "f", "arguments": "{}"})"), R"("arguments":{})"));
  EXPECT_TRUE(contains(calls(R"({"name": "f", "arguments": "so"})"), R"("arguments":"so")"));
}

TEST(ChatRows, KeepWhatElseATemplateReads) {
  // OpenAI's older member of one call.
  EXPECT_EQ(
      messages_of(
          R"({"messages": [{"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{\"x\": 1}"}}]})"),
      R"([{"role":"assistant","content":null,"function_call":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":{"x":1}}}]}])");
  EXPECT_EQ(messages_of(R"({"messages": [{"role": "assistant", "tool_calls": [{"name": "f"}], "weight": 1}]})"),
            R"([{"role":"assistant","tool_calls":[{"name":"f"}],"weight":1,"content":null}])");
  EXPECT_EQ(
      messages_of(
          R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "value": "b"}]}]})"),
      R"([{"role":"user","content":"a\nb"}])");
  EXPECT_EQ(messages_of(R"({"conversations": [{"name": "Al", "value": "a", "from": "human", "weight": 0}], "images": []})"),
            R"([{"role":"user","content":"a","name":"Al","weight":0}])");
  const ChatRow row = row_from(
      R"({"messages": [{"role": "user", "content": ""}], "source": "x", "weight": 1, "video": null, "tools": "[{\"name\": \"f\"}]",
    "documents": "", "chat_template_kwargs": {"enable_thinking": false}})");
  EXPECT_EQ(Json(row.conversation.variables).dump(), R"({"tools":[{"name":"f"}],"enable_thinking":false})");
}

TEST(ChatRows, SayHowManyMessagesArePrompt) {
  EXPECT_EQ(row_from(R"({"instruction": "a", "output": "b", "system": "S"})").prompt, 2);
  EXPECT_EQ(
      row_from(R"({"prompt": [{"role": "user", "content": "Hi"}], "completion": [{"role": "assistant", "content": ""}]})").prompt,
      1);
}

TEST(ChatRows, RefuseByTheMember) {
  const auto refused = [](const std::string& line) { return user_error([&] { row_from(line); }); };
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"({"messages": "Hi"})", "\"messages\" is a string, not a list of messages"},
      {R"({"messages": []})", "\"messages\" has no message"},
      {R"({"messages": [3]})", "\"messages\", message 1 is a number, not an object"},
      {R"({"messages": [{"content": "a"}]})", "\"messages\", message 1: \"role\" is missing"},
      {R"({"messages": [{"role": 1, "content": "a"}]})", "\"messages\", message 1: \"role\" is a number, not a string"},
      {R"({"messages": [{"role": "user"}]})", "\"messages\", message 1: \"content\" is missing"},
      {R"({"messages": [{"role": "user", "content": null}]})", "\"messages\", message 1: \"content\" is null"},
      {R"({"messages": [{"role": "assistant", "content": null, "tool_calls": null}]})", "message 1: \"content\" is null"},
      {R"({"messages": [{"role": "assistant", "content": null, "tool_calls": []}]})", "message 1: \"content\" is null"},
      {R"({"messages": [{"role": "assistant", "content": "a", "tool_calls": "[]"}]})", "\"tool_calls\" is a string, not a list"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})", "\"content\" has a part that is no text"},
      {R"({"messages": [{"role": "assistant", "content": "", "weight": 0.5}]})", "\"weight\" is 0.5, neither 0 nor 1"},
      {R"({"messages": [{"role": "assistant", "content": "", "loss_weight": 2}]})", "\"loss_weight\" is 2, neither 0 nor 1"},
      {R"({"messages": [{"role": "assistant", "content": "", "train": "no"}]})", "\"train\" is \"no\", neither true nor false"},
      {R"({"conversations": [{"from": "function_call", "value": "look"}]})", "\"value\" is no call"},
      {R"({"messages": [{"role": "user", "content": ""}], "tools": {}})", "\"tools\" is an object, not a list"},
      {R"({"messages": [{"role": "user", "content": ""}], "tools": "["})", "\"tools\": "},
      {R"({"messages": [{"role": "user", "content": ""}], "chat_template_kwargs": 1})", "\"chat_template_kwargs\" is a number"},
      {R"({"messages": [{"role": "user", "content": ""}], "chat_template_kwargs": {"add_generation_prompt": false}})",
       "\"chat_template_kwargs\" has \"add_generation_prompt\", which is no variable of its own"},
      {R"({"messages": [{"role": "user", "content": ""}], "tools": [1], "chat_template_kwargs": {"tools": []}})",
       "\"chat_template_kwargs\" has \"tools\""},
      {R"({"conversations": [{"from": "narrator", "value": "a"}]})",
       "\"from\" is \"narrator\", which is no role that is known: human, user, gpt, assistant, "},
      {R"({"conversations": [{"from": "human"}]})", "\"conversations\", message 1: \"value\" is missing"},
      {R"({"messages": [{"role": "assistant", "content": "a", "train_detail": []}]})",
       "message 1: \"train_detail\" teaches parts"},
      {R"({"conversations": [{"from": "human", "value": "a"}], "system": 1})", "\"system\" is a number, not a string"},
      {R"({"instruction": 1, "output": "a"})", "\"instruction\" is a number, not a string"},
      {R"({"instruction": "a", "output": []})", "\"output\" is an array, not a string"},
      {R"({"instruction": "a", "output": "b", "history": [["a", "b"]]})", "\"history\" is not read"},
      {R"({"prompt": [], "completion": [{"role": "assistant", "content": "b"}], "label": false})", "its \"label\" says"},
      {R"({"messages": [{"role": "assistant", "content": "b"}], "kto_tag": true})",
       "its \"kto_tag\" says whether the answer is wanted"},
      {R"({"messages": [{"role": "assistant", "content": "b"}], "label": true})",
       "its \"label\" says whether the answer is wanted"},
      {R"({"instruction": "a", "output": "b", "weight": 0.5})", "its \"weight\" is 0.5, and every row counts the same"},
      {R"({"instruction": "a", "output": "b", "images": ["a.png"]})", "its \"images\" would not be read"},
      {R"({"messages": [{"role": "assistant", "content": "b"}], "audio": {"path": "a.wav"}})", "its \"audio\" would not be read"},
      {R"({"conversations": [{"from": "human", "value": "a", "train": true}]})",
       "\"train\" is true, and its role is \"user\": turns of the assistant alone are taught"},
      {R"({"prompt": "a", "completion": [{"role": "assistant", "content": "b"}]})",
       "\"prompt\" is a string, not a list of messages"},
  };
  for (const auto& [line, said] : cases) EXPECT_TRUE(contains(refused(line), said)) << line << ": " << refused(line);
}

}  // namespace
}  // namespace lockstep::data
