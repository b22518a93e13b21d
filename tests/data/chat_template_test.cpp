// Chat templates: where they come from, what they write, and what is taught of it.

#include "data/chat/chat_template.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace lockstep::data {
namespace {

using Prompt = ChatTemplate::Prompt;

std::tm day() {
  std::tm made{};
  made.tm_year = 126, made.tm_mon = 10, made.tm_mday = 25;
  return made;
}

Json message(const char* role, const char* content) { return Json::Object{{"role", role}, {"content", content}}; }

/// The parts that are taught.
std::vector<std::string> taught(const ChatTemplate& chat, const Json::Array& messages) {
  const ChatText made = chat.teach({messages}, Prompt::none, day());
  std::vector<std::string> parts;
  for (const Taught& part : made.taught) parts.push_back(made.text.substr(part.begin, part.end - part.begin));
  return parts;
}

template <class Work>
std::string said_of(Work work) {
  try {
    work();
  } catch (const UserError& error) {
    EXPECT_FALSE(error.problems().front().remedy.empty());
    return error.problems().front().message;
  }
  return "";
}

using Parts = std::vector<std::string>;
const Json::Array two_turns = {message("user", "Hi"), message("assistant", "<think>hm</think>A"), message("user", "So?"),
                               message("assistant", "<think>ah</think>B")};

TEST(ChatTemplate, WritesPublishedTemplatesAsTransformersDoes) {
  const auto folder = test_data("chat_templates");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder.string() << " is not here";
  const Json expected = Json::parse(io::read_file(folder / "expected.json"));
  EXPECT_GE(expected.object().size(), 26);
  for (const auto& [file, rows] : expected.object()) {
    ChatTemplate chat = ChatTemplate::open(folder / file);
    chat.set_token("bos_token", "<s>");
    chat.set_token("eos_token", "</s>");
    for (const Json& row : rows.array()) {
      SCOPED_TRACE(file + ": " + row.at("conversation").string());
      const Conversation conversation{row.at("messages").array()};
      const Prompt prompt = row.at("add_generation_prompt").boolean() ? Prompt::added : Prompt::none;
      if (row.find("text") == nullptr) {
        EXPECT_NE(said_of([&] { chat.write(conversation, prompt, day()); }).find("the template refuses the messages: "),
                  std::string::npos);
        continue;
      }
      EXPECT_EQ(chat.write(conversation, prompt, day()), row.at("text").string());
      if (const Json* parts = row.find("taught")) {
        Json::Array found;
        for (const std::string& part : taught(chat, conversation.messages)) found.emplace_back(part);
        EXPECT_EQ(Json(found).dump(), parts->dump());
      }
    }
  }
}

TEST(ChatTemplate, TellsWhichMessageItLeavesOut) {
  const Json::Array messages = {message("system", "s"), message("user", "a"), message("critic", "b"), message("assistant", "c")};
  const auto left_out = [&](const char* source) { return ChatTemplate(source, "t").left_out({messages}, day()); };
  EXPECT_EQ(left_out("{% for m in messages %}{{ m.role }} {{ m.content }}{% endfor %}"), std::nullopt);
  EXPECT_EQ(left_out("{% for m in messages %}{% if m.role != 'critic' %}{{ m.content }}{% endif %}{% endfor %}"), 2U);
  EXPECT_EQ(left_out("{% for m in messages[1:] %}{{ m.content }}{% endfor %}"), 0U);
  EXPECT_EQ(left_out("{% for m in messages %}{{ m.content if m.content in 'abcs' else raise_exception('x') }}{% endfor %}"),
            std::nullopt);
  const Json call = Json::parse(R"({"role": "assistant", "content": "x", "tool_calls": [{"function": {"name": "f"}}]})");
  const ChatTemplate calls("{% for m in messages %}{{ m.tool_calls or m.content }}{% endfor %}", "t");
  EXPECT_EQ(calls.left_out({{message("user", "a"), call, message("assistant", " ")}}, day()), std::nullopt);
}

TEST(ChatTemplate, PublishedOnesLeaveNoMessageOut) {
  const auto folder = test_data("chat_templates");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder.string() << " is not here";
  const Json expected = Json::parse(io::read_file(folder / "expected.json"));
  for (const auto& [file, rows] : expected.object()) {
    const ChatTemplate chat = ChatTemplate::open(folder / file);
    for (const Json& row : rows.array()) {
      if (row.find("text") == nullptr) continue;
      EXPECT_EQ(chat.left_out({row.at("messages").array()}, day()), std::nullopt) << file << row.dump();
    }
  }
}

TEST(ChatTemplate, HasTemplatesOfItsOwn) {
  const Json::Array chat = {message("user", "Hi"), message("assistant", "Yes.")};
  EXPECT_EQ(ChatTemplate::open("chatml").write({chat}, Prompt::added, day()),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n<|im_start|>assistant\n");
  for (const char* name : {"chatml", "llama3", "zephyr"}) {
    ChatTemplate written = ChatTemplate::open(name);
    written.set_token("bos_token", "<s>");
    written.set_token("eos_token", "</s>");
    const Parts parts = taught(written, chat);
    ASSERT_EQ(parts.size(), 1) << name;
    EXPECT_TRUE(parts[0].starts_with("Yes.")) << name;
  }
}

TEST(ChatTemplate, TeachesTurnsWhereNothingIsMarked) {
  // Thinking of earlier turns is left out, and the last one has it.
  const ChatTemplate strips(
      "{% for m in messages %}<|{{ m.role }}|>\n{% if m.role == 'assistant' %}"
      "{{ m.content if loop.last else m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}<|end|>\n"
      "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
      "t");
  EXPECT_EQ(taught(strips, two_turns), (Parts{"A<|end|>\n", "<think>ah</think>B<|end|>\n"}));
  // The text's own end follows the last turn.
  const ChatTemplate ends(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}{{ '<assistant>' if add_generation_prompt else "
      "'</s>' }}",
      "t");
  EXPECT_EQ(taught(ends, {message("user", "Hi"), message("assistant", "A"), message("user", "So?"), message("assistant", "B")}),
            (Parts{"A<end>", "B<end></s>"}));
  // It writes thinking before the answer.
  const ChatTemplate adds(
      "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' and loop.last %}<think></think>{% endif %}{{ m.content "
      "}}<end>"
      "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
      "t");
  EXPECT_EQ(taught(adds, {message("user", "Hi"), message("assistant", "A"), message("user", "So?"), message("assistant", "B")}),
            (Parts{"A<end>", "<think></think>B<end>"}));
}

Json calls(const char* name, const char* content = "") {
  const Json call = Json::Object{{"function", Json::Object{{"name", name}, {"arguments", Json::Object{{"x", 1}}}}}};
  return Json::Object{{"role", "assistant"}, {"content", content}, {"tool_calls", Json::Array{call}}};
}
const Json::Array asks_tool = {message("user", "How warm?"), calls("look"),          message("tool", "It is 20"),
                               message("assistant", "A"),    message("user", "So?"), message("assistant", "B")};

TEST(ChatTemplate, TeachesNothingThatToolsAndUsersWrote) {
  // The prompt begins with a line break that the turns do not have.
  const ChatTemplate breaks(
      "{% for m in messages %}{% if m.tool_calls %}\n<assistant>{{ m.tool_calls | tojson }}<end>{% elif m.role == 'tool' %}\n"
      "<tool>{{ m.content }}<end>{% else %}<{{ m.role }}>{{ m.content }}<end>{% endif %}{% endfor %}"
      "{{ '\\n<assistant>' if add_generation_prompt }}",
      "t");
  const std::string call = R"([{"function": {"name": "look", "arguments": {"x": 1}}}]<end>)";
  EXPECT_EQ(taught(breaks, asks_tool), (Parts{call, "A<end>", "B<end>"}));
  // Calls, their result and the answer are one turn.
  const ChatTemplate joins(
      "{% set ns = namespace(open=false) %}{% for m in messages %}{% if m.role == 'user' %}{{ '<end>' if ns.open }}<user>{{ "
      "m.content }}<end>{% set ns.open = false %}{% else %}{{ '<assistant>' if not ns.open }}{% set ns.open = true %}"
      "{{ m.tool_calls | tojson + '<called>' if m.tool_calls else m.content }}{% endif %}{% endfor %}"
      "{{ '<end>' if ns.open }}{{ '<assistant>' if add_generation_prompt }}",
      "t");
  EXPECT_EQ(taught(joins, asks_tool), (Parts{call.substr(0, call.size() - 5) + "<called>", "A<end>", "B<end>"}));
  // A result that is written with the answer cannot be told from it.
  const ChatTemplate late(
      "{% for m in messages %}{% if m.role == 'tool' %}{% elif loop.index0 and messages[loop.index0 - 1].role == 'tool' %}"
      "<assistant>{{ messages[loop.index0 - 1].content ~ m.content }}<end>{% else %}<{{ m.role }}>{{ m.content }}"
      "{{ m.tool_calls | tojson if m.tool_calls }}<end>{% endif %}{% endfor %}{{ '<assistant>' if add_generation_prompt }}",
      "t");
  EXPECT_EQ(said_of([&] { taught(late, asks_tool); }),
            "t: message 3 (tool) would be taught, for it lies in a turn of the assistant");
  // A user's words may be part of a mark.
  const ChatTemplate plain(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}{{ '<assistant>' if add_generation_prompt }}", "t");
  EXPECT_EQ(taught(plain, {message("user", "end"), message("assistant", "A")}), Parts{"A<end>"});
}

TEST(ChatTemplate, TeachesCallsWithoutAContent) {
  // A line break stands before calls that follow a content, and earlier turns have no thinking.
  const ChatTemplate thinks(
      "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' and loop.last %}<think></think>{% endif %}{{ m.content }}"
      "{% for c in m.tool_calls %}{{ '\n' if m.content }}<call>{{ c.function.name }}</call>{% endfor %}<end>{% endfor %}"
      "{{ '<assistant>' if add_generation_prompt }}",
      "t");
  EXPECT_EQ(taught(thinks, asks_tool), (Parts{"<call>look</call><end>", "A<end>", "<think></think>B<end>"}));
  // A content beside calls is not written. The tools stand before the last user's words, so the text of the first messages goes
  // on in another way.
  const ChatTemplate moves(
      "{% set last = messages | selectattr('role', 'equalto', 'user') | list | length %}{% set ns = namespace(users=0) %}"
      "{% for m in messages %}{% if m.role == 'user' %}{% set ns.users = ns.users + 1 %}{{ '[TOOLS]' if ns.users == last "
      "}}[INST] "
      "{{ m.content }}[/INST]{% elif m.tool_calls %}[CALLS]{{ m.tool_calls[0].function.name }}</s>{% elif m.role == 'tool' %}"
      "[RESULT]{{ m.content }}[/RESULT]{% else %} {{ m.content }}</s>{% endif %}{% endfor %}",
      "t");
  EXPECT_EQ(taught(moves, asks_tool), (Parts{"[CALLS]look</s>", " A</s>", " B</s>"}));
  EXPECT_EQ(said_of([&] { taught(ChatTemplate("{{ messages | length }}", "t"), {message("user", "Hi"), calls("look")}); }),
            "t: the text loses the content of message 2 (assistant)");
}

TEST(ChatTemplate, TeachesWhatStandsBeforeTheContent) {
  // The prompt has thinking that is empty; calls stand before the content, which follows their results.
  const ChatTemplate gathers(
      "{% for m in messages %}{% if m.role == 'tool' %}<result>{{ m.content }}</result>{% else %}"
      "{{ '<' ~ m.role ~ '>' if not (m.role == 'assistant' and loop.index0 and messages[loop.index0 - 1].role == 'tool') }}"
      "{{ '<think>' ~ m.reasoning_content ~ '</think>' if m.reasoning_content }}"
      "{% for c in m.tool_calls %}<call>{{ c.function.name }}</call>{% endfor %}{{ m.content }}"
      "{{ '<end>' if not m.tool_calls }}{% endif %}{% endfor %}"
      "{{ '<assistant><think></think>' if add_generation_prompt }}",
      "t");
  EXPECT_EQ(taught(gathers, asks_tool), (Parts{"<call>look</call>", "A<end>", "B<end>"}));
  Json thinks = message("assistant", "A");
  thinks.set("reasoning_content", "so");
  EXPECT_EQ(taught(gathers, {message("user", "Hi"), thinks}), Parts{"so</think>A<end>"});
  // Tools are declared by the same names; the calls are lost.
  const ChatTemplate loses(
      "declared: look{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}"
      "{{ '<assistant>' if add_generation_prompt }}",
      "t");
  EXPECT_EQ(said_of([&] { taught(loses, asks_tool); }),
            "the template t loses the calls of tools of message 2 (assistant), or does not show where they are");
}

TEST(ChatTemplate, TheLastTurnMayBeClosedByAnotherMark) {
  const auto closed = [](const char* earlier) {
    return ChatTemplate(
        fmt::format("{{% for m in messages %}}<{{{{ m.role }}}}>{{{{ m.content }}}}{{{{ '<return>' if loop.last else '{}' "
                    "}}}}{{% endfor %}}{{{{ '<assistant>' if add_generation_prompt }}}}",
                    earlier),
        "t");
  };
  const Json::Array chat = {message("user", "Hi"), message("assistant", "A"), message("user", "So?"), message("assistant", "B")};
  EXPECT_EQ(taught(closed("<end>"), chat), (Parts{"A<end>", "B<return>"}));
  // The next turn's mark closes nothing.
  EXPECT_EQ(said_of([&] { taught(closed(""), chat); }),
            "t: a conversation that ends there and one that goes on differ in the end of message 2 (assistant)");
}

TEST(ChatTemplate, TeachesTurnsApartFromEachOther) {
  // The end of a turn is written where the next one is another's.
  const ChatTemplate joins(
      "{% for m in messages %}{{ '<' ~ m.role ~ '>' if loop.first or m.role != messages[loop.index0 - 1].role }}{{ m.content | "
      "trim "
      "}}{{ '<end>\n' if loop.last or m.role != messages[loop.index0 + 1].role }}{% endfor %}{{ '<assistant>' if "
      "add_generation_prompt }}",
      "t");
  const Json::Array twice = {message("user", "Hi"), message("assistant", "A"), message("assistant", "B"), message("user", "So?"),
                             message("assistant", "")};
  const std::string why = said_of([&] { taught(joins, twice); });
  EXPECT_TRUE(why.starts_with("t: a conversation that ends there and one that goes on differ in the end of message 2")) << why;
  const ChatTemplate plain(
      "{% for m in messages %}    ### {{ m.role }}:\n{{ m.content | trim }}\n\n{% endfor %}{{ '    ### assistant:\n' if "
      "add_generation_prompt }}",
      "t");
  EXPECT_EQ(taught(plain, twice), (Parts{"A\n\n", "B\n\n", "\n\n"}));
  // Nothing is taught of a turn of which nothing is written.
  const ChatTemplate skips(
      "{% for m in messages if m.content %}<{{ m.role }}>{{ m.content }}{% endfor %}{{ '<assistant>' if add_generation_prompt }}",
      "t");
  EXPECT_EQ(said_of([&] { taught(skips, {message("user", "Hi"), message("assistant", ""), message("user", "So?")}); }), "");
}

TEST(ChatTemplate, APromptThatIsAlwaysWrittenIsNotTaught) {
  const Json::Array chat = {message("system", "S"), message("user", "Hi"), message("assistant", "A"), message("user", "So?"),
                            message("assistant", "B")};
  for (const char* said : {"<|end|>", "<|said|><|end|>"}) {
    for (const char* opens : {"<|", "<|start|><|", "### "}) {
      const std::string end = std::string(said) + "\n", start = opens;
      for (const char* rest : {"", "{{ '<think>' if add_generation_prompt }}"}) {
        const ChatTemplate always("<s>{% for m in messages %}" + start + "{{ m.role }}|>\n{{ m.content }}" + end +
                                      "{% endfor %}" + start + "{{ 'assistant|>\n' }}" + rest,
                                  "t");
        EXPECT_EQ(taught(always, chat), (Parts{"A" + end, "B" + end})) << end << start << rest;
      }
    }
  }
  const ChatTemplate never(
      "{% for m in messages %}{{ '[INST]' + m.content + '[/INST]' if m.role == 'user' else m.content + '</s>' }}"
      "{% endfor %}",
      "t");
  EXPECT_EQ(taught(never, {chat.begin() + 1, chat.end()}), (Parts{"A</s>", "B</s>"}));
}

TEST(ChatTemplate, GetsMessagesAsTransformersHandsThem) {
  const ChatTemplate prints("{% for m in messages %}{{ m | tojson }}{{ m.content is defined }}\n{% endfor %}", "t");
  const auto written = [&](const char* given) { return prints.write({Json::parse(given).array()}, Prompt::none, day()); };
  EXPECT_EQ(written(R"([{"role": "user", "content": null, "tool_calls": null}])"), "{\"role\": \"user\"}False\n");
  EXPECT_EQ(written(R"([{"content": "A", "reasoning": "r"}])"),
            R"({"thinking": "r", "content": "A", "reasoning": "r", "reasoning_content": "r"}True)"
            "\n");
  EXPECT_EQ(written(R"([{"content": "A", "thinking": "t", "reasoning_content": "c"}])"),
            R"({"thinking": "t", "content": "A", "reasoning_content": "c"}True)"
            "\n");
}

TEST(ChatTemplate, RefusesWhatItCannotTell) {
  const ChatTemplate loses(
      "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}{{ messages | length }}", "t");
  EXPECT_EQ(said_of([&] { taught(loses, two_turns); }), "t: the text loses the content of message 2 (assistant)");
  const ChatTemplate differs(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ '[return]' if loop.last else '{end}' }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}",
      "t");
  EXPECT_EQ(said_of([&] { taught(differs, two_turns); }),
            "t: a conversation that ends there and one that goes on differ in the end of message 2 (assistant)");
  const ChatTemplate shortens(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}<call> {{ c.function | tojson if loop.last "
      "and m == messages[-1] else '{...}' }}{% endfor %}<end>{% endfor %}{{ '<assistant>' if add_generation_prompt }}",
      "t");
  EXPECT_EQ(said_of([&] { taught(shortens, asks_tool); }),
            "t: a conversation that ends there and one that goes on differ in the end of message 2 (assistant)");
  const ChatTemplate changes("{% set x %}{% generation %}a {% endgeneration %}{% endset %}{{ x | trim }}", "t");
  EXPECT_EQ(said_of([&] { taught(changes, {}); }), "t: the text of a {% generation %} block is changed before it is written");
}

const Conversation with_tools = {.messages = {}, .variables = {{"tools", Json::Array{}}}};

TEST(ChatTemplate, ComesFromAModelsFolder) {
  const TempFolder folder;
  const auto write = [&](const char* name, const char* text) { std::ofstream(folder / name) << text; };
  write("tokenizer_config.json", R"({"bos_token": {"content": "<b>"}, "eos_token": "<e>", "pad_token": null,
    "chat_template": [{"name": "default", "template": "{{ bos_token }}d"}, {"name": "tool_use", "template": "{{ eos_token }}t"}]})");
  EXPECT_EQ(ChatTemplate::open(folder.path()).write({}, Prompt::none, day()), "<b>d");
  EXPECT_EQ(ChatTemplate::open(folder / "tokenizer_config.json").write(with_tools, Prompt::none, day()), "<e>t");
  write("chat_template.jinja", "{{ bos_token }}{{ pad_token is defined }}");
  EXPECT_EQ(ChatTemplate::open(folder.path()).write({}, Prompt::none, day()), "<b>False");
  EXPECT_EQ(ChatTemplate::open(folder / "chat_template.jinja").write({}, Prompt::none, day()), "<b>False");
  write("none.json", "{}");
  EXPECT_NE(said_of([&] { ChatTemplate::open(folder / "none.json"); }).find("none.json: it has no chat_template"),
            std::string::npos);
}

TEST(ChatTemplate, ComesFromTheFilesOfAFolderAsInTransformers) {
  const TempFolder folder;
  const auto write = [&](const char* name, const char* text) { std::ofstream(folder / name) << text; };
  const auto written = [&](bool tools) {
    return ChatTemplate::open(folder.path()).write(tools ? with_tools : Conversation{}, Prompt::none, day());
  };
  write("chat_template.jinja", "{{ bos_token }}{{ eos_token }}");
  write("special_tokens_map.json", R"({"bos_token": "<b>", "eos_token": {"content": "<e>"}})");
  EXPECT_EQ(written(false), "<b><e>");
  EXPECT_EQ(written(true), "<b><e>");
  std::filesystem::create_directory(folder / "additional_chat_templates");
  write("additional_chat_templates/tool_use.jinja", "{{ bos_token }}tools");
  EXPECT_EQ(written(true), "<b>tools");
  EXPECT_EQ(written(false), "<b><e>");
  // A tokenizer_config.json goes after the map, unless it lists added tokens.
  write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  EXPECT_EQ(written(false), "<b><e>");
  write("tokenizer_config.json", R"({"bos_token": "<s>", "added_tokens_decoder": {}})");
  EXPECT_EQ(written(false), "<s>");
  EXPECT_EQ(ChatTemplate::from_texts(texts_of(folder.path()))->write({}, Prompt::none, day()), "<s>");
  EXPECT_EQ(ChatTemplate::from_texts(texts_of(folder.path()))->write(with_tools, Prompt::none, day()), "<s>tools");
  // Tokens of a model's own have names of its own.
  write("chat_template.jinja", "{{ boi_token }}{{ image }}");
  write("tokenizer_config.json",
        R"({"extra_special_tokens": {"boi_token": "<boi>"}, "model_specific_special_tokens": {"image": "<i>"}})");
  EXPECT_EQ(written(false), "<boi><i>");
  write("tokenizer_config.json", "{}");
  write("special_tokens_map.json", "{");
  EXPECT_NE(said_of([&] { written(false); }).find("special_tokens_map.json: not valid JSON"), std::string::npos);
}

TEST(ChatTemplate, ReadsConversations) {
  const Conversation read = conversation_from_json(Json::parse(R"({"messages": [{"role": "user"}], "tools": [1]})"), "f");
  EXPECT_EQ(read.messages.size(), 1);
  EXPECT_EQ(read.variables.front().first, "tools");
  EXPECT_EQ(said_of([] { conversation_from_json(Json::parse("3"), "f"); }),
            R"(f: a list of messages is expected, or an object with "messages")");
  EXPECT_EQ(said_of([] { conversation_from_json(Json::parse(R"([{"role": "user"}, {"content": ""}])"), "f"); }),
            R"(f: message 2 has no "role")");
}

}  // namespace
}  // namespace lockstep::data
