// Conversations to token files and loss masks.

#include "data/chats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "support/text.h"

namespace lockstep::data {
namespace {

TEST(Chats, TeachTheAssistantsTurns) {
  Chats chats;
  chats.prepare(chat_line(two_answers) + "\n" + chat_line(one_answer));
  EXPECT_EQ(chats.part("train").marked,
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[A<|im_end|>\n]<|im_start|>user\nSo?<|im_end|>\n"
            "<|im_start|>assistant\n[B<|im_end|>\n]");
  EXPECT_EQ(chats.part("val").taught, "A<|im_end|>\n");
  EXPECT_TRUE(contains(chats.facts,
                       "found: messages (role, content), written by chatml; taught: the assistant's turns\n"
                       "no special token of this tokenizer ends a turn: what is written later goes on behind it, unless --stop "
                       "names its end\n"
                       "documents: 2\n"))
      << chats.facts;
  EXPECT_TRUE(contains(chats.facts, "of them 24 are taught\n")) << chats.facts;
  const TokenDescription read = read_description(chats.folder.path("out")).value();
  EXPECT_EQ(read.find("train.bin")->text_bytes, 24);
  EXPECT_EQ(read.documents, 2);
}

TEST(Chats, FormsAreFoundAndSaid) {
  const std::string share = R"({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "A"}]})";
  const std::string alpaca = R"({"instruction": "Hi", "input": "", "output": "A"})";
  const std::string lists =
      R"({"prompt": [{"role": "user", "content": "Hi"}], "completion": [{"role": "assistant", "content": "A"}]})";
  for (const auto& [line, name] : {std::pair(share, "ShareGPT (conversations: from, value)"),
                                   {alpaca, "Alpaca (instruction, input, output)"},
                                   {lists, "prompts and completions as messages"}}) {
    Chats chats;
    chats.prepare(line + "\n" + line + "\n");
    EXPECT_EQ(chats.part("train").marked, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[A<|im_end|>\n]");
    EXPECT_TRUE(contains(chats.facts, std::string("found: ") + name)) << chats.facts;
  }
  Chats plain;
  plain.options.chats = {};
  plain.prepare("{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
  EXPECT_TRUE(contains(plain.facts, "found: texts\n")) << plain.facts;
  plain.prepare("{\"prompt\": \"a\", \"completion\": \"c\"}\n{\"text\": \"b\"}\n");
  EXPECT_TRUE(contains(plain.facts, "found: prompts with completions\n")) << plain.facts;
  EXPECT_EQ(plain.part("train").marked, "a[c\n]");
  plain.options.chats.train_on = TrainOn::all;
  plain.prepare("{\"prompt\": \"a\", \"completion\": \"c\"}\n{\"text\": \"b\"}\n");
  EXPECT_EQ(plain.part("train").marked, "[ac\n]");
}

// What a row says beside that may be meant to change what is learned.
TEST(Chats, MembersThatAreNotReadAreSaid) {
  const std::string turns = R"("messages": [{"role": "user", "content": "Hi", "name": "Al", "note": null}, )"
                            R"({"role": "assistant", "content": "A", "weight": 1, "reasoning_content": ""}])";
  Chats chats;
  const auto told = [&](const std::string& first, const std::string& second) {
    chats.prepare("{" + first + "}\n{" + second + "}\n");
    const std::size_t at = chats.facts.find("members that are not read: ");
    return at == std::string::npos ? "" : chats.facts.substr(at + 27, chats.facts.find('\n', at) - at - 27);
  };
  EXPECT_EQ(told(turns + R"(, "source": "x", "id": null)", turns + R"(, "score": 1, "tools": [{"name": "f"}], "prompt": "Hi")"),
            "messages' name, prompt, score, source, tools");
  chats.options.chats.chat_template = chats.folder.write(
      "t.jinja",
      "{% for m in messages %}<{{ m.name }}>{{ m.content }}<end>{% endfor %}{{ '<assistant>' if add_generation_prompt }}");
  EXPECT_EQ(told(turns, turns), "");
  chats.options.chats = {};
  EXPECT_EQ(told(R"("text": "a", "label": true)", R"("prompt": "a", "completion": "b", "a\u001bb": 1)"), "a\\x1bb, label");
  EXPECT_EQ(told(R"("text": "a")", R"("prompt": "a", "completion": "b", "system": "")"), "");
  std::string many = R"("text": "a")";
  for (char c = 'a'; c <= 'z'; ++c) many += std::string(", \"") + c + "\": 1";
  EXPECT_EQ(told(many, many), "a, b, c, d, e, f, g, h, i, j, k, l");
}

TEST(Chats, AMixtureIsRefusedWithTheLine) {
  Chats chats;
  const std::string alpaca = "{\"instruction\": \"Hi\", \"output\": \"A\"}\n";
  const std::string mixed = chats.refused(chat_line(one_answer) + "\n" + alpaca);
  EXPECT_TRUE(contains(mixed,
                       "chats.jsonl, line 3: this is of the form Alpaca (instruction, input, output), and the first row of "
                       "messages (role, content)"))
      << mixed;
  EXPECT_TRUE(
      contains(chats.refused(chat_line(one_answer) + "{\"text\": \"a\"}\n"), "line 2: this is of the form texts, or prompts"));
  EXPECT_TRUE(contains(chats.refused(chat_line(one_answer) + "{\"txt\": \"a\"}\n"), "line 2: it has no \"text\""));
  EXPECT_TRUE(contains(chats.refused(chat_line(one_answer) + "{\"messages\": 3}\n"), "line 2: \"messages\" is a number"));
  for (const auto& [rows, said] : {std::pair("{\n\"messages\": []}\n", "line 1: not valid JSON"),
                                   {"[{}]\n[{}]\n", "line 1: this is an array, not an object"},
                                   {"{\"question\": \"a\"}\n", "line 1: it has no \"text\""},
                                   {"\n", "has 0 documents"}})
    EXPECT_TRUE(contains(chats.refused(rows), said)) << chats.refused(rows);
  chats.options.chats.chat_template.clear();
  EXPECT_TRUE(contains(chats.refused("{\"text\": \"a\"}\n" + alpaca), "line 2: this is of the form Alpaca"));
}

TEST(Chats, TrainOnSaysWhatIsTaught) {
  const std::string lines = chat_line(two_answers) + chat_line(one_answer);
  const auto taught = [&](TrainOn on, const std::string& text) {
    Chats chats;
    chats.options.chats.train_on = on;
    chats.prepare(text);
    return chats.part("train").taught;
  };
  EXPECT_EQ(taught(TrainOn::assistant, lines), "A<|im_end|>\nB<|im_end|>\n");
  EXPECT_EQ(taught(TrainOn::last, lines), "B<|im_end|>\n");
  EXPECT_TRUE(taught(TrainOn::all, lines).starts_with("<|im_start|>user\nHi"));
  const std::string lists =
      R"({"prompt": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "A"}, {"role": "user", "content": "So?"}],
 "completion": [{"role": "assistant", "content": "B"}, {"role": "tool", "content": "t"}, {"role": "assistant", "content": "C"}]})";
  std::string pair = lists;
  std::erase(pair, '\n');
  pair += "\n" + pair + "\n";
  EXPECT_EQ(taught(TrainOn::automatic, pair), "B<|im_end|>\nC<|im_end|>\n");
  EXPECT_EQ(taught(TrainOn::last, pair), "C<|im_end|>\n");
  EXPECT_EQ(taught(TrainOn::assistant, pair), "A<|im_end|>\nB<|im_end|>\nC<|im_end|>\n");
  Chats chats;
  chats.options.chats.train_on = TrainOn::completion;
  EXPECT_TRUE(contains(chats.refused(lines), "--train-on completion: messages (role, content) have no completion"));
}

TEST(Chats, ATurnMayBeLeftUntaught) {
  const std::string line =
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "A", "loss_weight": 0.0}, )"
      R"({"role": "user", "content": "So?"}, {"role": "assistant", "content": "B", "weight": 1}, )"
      R"({"role": "user", "content": "Oh?"}, {"role": "assistant", "content": "C", "train": false}]})"
      "\n";
  Chats chats;
  for (const char* source :
       {"",
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}{{ '<assistant>' if add_generation_prompt }}"}) {
    if (*source != '\0') chats.options.chats.chat_template = chats.folder.write("t.jinja", source);
    chats.prepare(line + line);
    EXPECT_EQ(chats.part("train").taught, *source != '\0' ? "B<end>" : "B<|im_end|>\n");
  }
  chats.options.chats.train_on = TrainOn::all;
  EXPECT_TRUE(contains(chats.refused(line + line), "--train-on all: a message of the conversation is not to be taught"));
}

TEST(Chats, WhatTeachesNothingIsRefused) {
  Chats chats;
  const std::string silent = chat_line({{"user", "Hi"}});
  EXPECT_TRUE(contains(chats.refused(silent + silent), "nothing is taught in train of "));
  EXPECT_TRUE(contains(chats.facts, "conversations without anything that is taught: 2\n")) << chats.facts;
  EXPECT_TRUE(contains(chats.refused(chat_line(two_answers) + silent), "nothing is taught in val of "));
  chats.prepare(silent + chat_line(two_answers) + chat_line(one_answer));
  EXPECT_TRUE(contains(chats.facts, "conversations without anything that is taught: 1\n")) << chats.facts;
}

TEST(Chats, AnAssistantByAnotherNameIsToldWithTheRow) {
  Chats chats;
  const std::string named = chat_line({{"user", "Hi"}, {"human_expert", "A"}});
  EXPECT_TRUE(contains(chats.refused(chat_line(one_answer) + named),
                       "chats.jsonl, line 2: message 2 has the role \"human_expert\", which is none of system, developer, user, "
                       "assistant, tool, function, ipython; and no message is the assistant's"));
  // A role beside the assistant's is for the template.
  chats.prepare(chat_line({{"user", "Hi"}, {"narrator", "So."}, {"assistant", "A"}}) + chat_line(one_answer));
  EXPECT_EQ(chats.part("train").marked,
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>narrator\nSo.<|im_end|>\n<|im_start|>assistant\n[A<|im_end|>\n]");
  chats.options.chats.train_on = TrainOn::all;
  chats.prepare(named + named);
  chats.options.chats.train_on = TrainOn::automatic;
  chats.options.chats.chat_template = chats.folder.write(
      "t.jinja",
      "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% else %}{% generation %}<{{ m.content }}>"
      "{% endgeneration %}{% endif %}{% endfor %}");
  chats.prepare(named + named);
  EXPECT_EQ(chats.part("train").taught, "<A>");
}

TEST(Chats, TooLongIsRefusedDroppedOrCut) {
  Chats chats;
  const Turns three = {{"user", "Hi"},     {"assistant", "A"}, {"user", "So?"},
                       {"assistant", "B"}, {"user", "And?"},   {"assistant", "C"}};
  const std::string lines = chat_line(three) + chat_line(one_answer) + chat_line(one_answer);
  chats.options.chats.length = 129;  // two turns have 129 bytes, and one has 64
  EXPECT_TRUE(contains(chats.refused(lines), "line 1: the conversation has 195 tokens, more than --length 129"))
      << chats.refused(lines);
  chats.options.chats.too_long = TooLong::drop;
  chats.prepare(lines);
  EXPECT_EQ(chats.part("train").taught, "A<|im_end|>\n");
  EXPECT_TRUE(contains(chats.facts, "conversations left out, as they have more than 129 tokens: 1\ndocuments: 2\n"))
      << chats.facts;
  chats.options.chats.too_long = TooLong::cut;
  chats.prepare(lines);
  EXPECT_TRUE(chats.part("train").taught.starts_with("A<|im_end|>\nB<|im_end|>\n"));
  EXPECT_TRUE(contains(chats.facts, "conversations cut between turns to 129 tokens at most: 1\ndocuments: 3\n")) << chats.facts;
  chats.options.chats.length = 50;
  EXPECT_TRUE(contains(chats.refused(lines), "has 0 documents"));
  // Without a tokenizer yet, characters are counted, or nothing is.
  chats.options.tokenizer = "char";
  chats.options.chats.length = 129;
  chats.prepare(lines);
  EXPECT_TRUE(contains(chats.facts, "at most: 1\n")) << chats.facts;
  chats.options.tokenizer = "bpe:300";
  EXPECT_TRUE(contains(chats.refused(lines), "--length 129: a tokenizer that is trained on the text cannot count before"));
}

// A line feed ends documents of bytes. A template may write it itself.
TEST(Chats, AWindowHoldsAConversationOfItsLength) {
  for (const char* end : {"", "\n"}) {
    Chats chats;
    chats.options.chats.chat_template =
        chats.folder.write("t.jinja", std::string("{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}"
                                                  "{{ '<assistant>' if add_generation_prompt else '") +
                                          end + "' }}");
    chats.options.pack = chats.options.chats.packed = true;
    chats.options.chats.length = 31;
    chats.prepare(chat_line(one_answer) + chat_line(one_answer));
    EXPECT_TRUE(contains(chats.facts, "train: 1 document in 1 window of 31 tokens, 100.0 %")) << chats.facts;
    EXPECT_EQ(chats.part("train").text.substr(0, 31), "<user>Hi<end><assistant>A<end>\n");
    chats.options.chats.length = 30;
    EXPECT_TRUE(contains(chats.refused(chat_line(one_answer)), "the conversation has 31 tokens with what ends it"));
  }
}

TEST(Chats, ATemplateThatLosesATurnIsRefused) {
  Chats chats;
  const auto with = [&](const std::string& source) {
    chats.options.chats.chat_template = chats.folder.write("t.jinja", source);
    return chats.options.chats.chat_template;
  };
  const Turns system = {{"system", "Be kind."}, {"user", "Hi"}, {"assistant", "A"}};
  const std::string name = with(
      "{% for m in messages if m.role != 'system' %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}");
  chats.prepare(chat_line(one_answer) + chat_line(one_answer));
  const std::string said = chats.refused(chat_line(one_answer) + chat_line(system));
  EXPECT_TRUE(contains(said, "line 2: the template " + name + " loses the content of message 1 (system)")) << said;
  // What a template changes is no loss.
  with(
      "{% for m in messages %}<{{ m.role }}>{{ m.content | upper | replace('LOCKSTEP', 'lockstep') }}<end>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}");
  chats.prepare(chat_line(system) + chat_line(two_answers));
  EXPECT_EQ(chats.part("train").taught, "A<end>");
  const std::string calls =
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "find"}}]}]})";
  EXPECT_TRUE(contains(chats.refused(calls + "\n"), "line 1: the template " + name + " loses the calls of tools of message 2"));
  chats.options.chats.chat_template = "chatml";
  const std::string null = R"({"messages": [{"role": "assistant", "content": null, "tool_calls": [{"name": "find"}]}]})";
  EXPECT_TRUE(contains(chats.refused(null + "\n"), "line 1: the template chatml loses the calls of tools of message 1"));
  with("{{ raise_exception('No system') if messages[0].role == 'system' }}");
  EXPECT_TRUE(
      contains(chats.refused(chat_line(system)), "line 1: " + name + ", line 1, column 19: the template refuses the messages"))
      << chats.refused(chat_line(system));
}

TEST(Chats, EarlierThinkingMayGo) {
  Chats chats;
  chats.options.chats.chat_template = chats.folder.write(
      "t.jinja",
      "{% for m in messages %}<{{ m.role }}>{{ m.content if loop.last else m.content.split('</think>')[-1] }}<end>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}");
  const Turns thinks = {
      {"user", "Hi"}, {"assistant", "<think>hm</think>A"}, {"user", "So?"}, {"assistant", "<think>ah</think>B"}};
  chats.prepare(chat_line(thinks) + chat_line(one_answer));
  EXPECT_EQ(chats.part("train").taught, "A<end><think>ah</think>B<end>");
  EXPECT_TRUE(contains(chats.facts, "conversations with thinking that the template leaves out: 1\n")) << chats.facts;
}

TEST(Chats, TheTokenizersTemplateAndTokensAreTaken) {
  Chats chats;
  write_tokenizer(chats, {"<b>", "<e>"},
                  R"({"bos_token": "<b>", "eos_token": {"content": "<e>"}, "chat_template":
    "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"})");
  chats.options.chats.chat_template.clear();
  chats.prepare(chat_line(one_answer) + chat_line(one_answer));
  const Chats::Part part = chats.part("train");
  EXPECT_EQ(part.text, "<b>Hi<e>A<e><|endoftext|>");
  EXPECT_EQ(part.taught, "A<e>");
  EXPECT_EQ(std::ranges::count(part.ids, part.ids.front()), 1);
  EXPECT_EQ(part.ids.size(), 7);
  // A template that is named has the tokenizer's tokens, and the file of a tokenizer.json means its folder.
  chats.options.tokenizer += "/tokenizer.json";
  chats.options.chats.chat_template = "zephyr";
  chats.prepare(chat_line(one_answer) + chat_line(one_answer));
  EXPECT_EQ(chats.part("train").taught, "A<e>\n");
}

TEST(Chats, WantATemplateAndItsTokens) {
  Chats chats;
  chats.options.chats.chat_template.clear();
  EXPECT_TRUE(contains(chats.refused(chat_line(one_answer)), "no chat template says how a model reads these conversations"));
  chats.options.chats.chat_template = "llama3";
  EXPECT_TRUE(contains(chats.refused(chat_line(one_answer)),
                       "the template llama3 writes bos_token, and nothing says which token that is"));
  chats.options.chats.chat_template = "zephyr";
  EXPECT_TRUE(contains(chats.refused(chat_line(one_answer)), "the template zephyr writes eos_token"));
  write_tokenizer(chats, {});
  chats.prepare(chat_line(one_answer) + chat_line(one_answer));  // the end of a text, by its name
  EXPECT_EQ(chats.part("train").taught, "A<|endoftext|>\n");
  EXPECT_TRUE(contains(chats.log, "the token inside that ends documents; data.documents=true would part them there"))
      << chats.log;
}

TEST(Chats, OptionsOfConversationsNeedSome) {
  const std::string lines = "{\"text\": \"a\"}\n{\"text\": \"b\"}\n";
  const auto refused = [&](const ChatRules& rules, std::int64_t show, TextFormat format) {
    Chats chats;
    chats.options.chats = rules;
    chats.options.format = format;
    chats.options.show = show;
    return chats.refused(lines);
  };
  EXPECT_TRUE(contains(refused({.chat_template = "chatml"}, 0, TextFormat::jsonl), "--chat-template chatml: "));
  EXPECT_TRUE(contains(refused({.length = 9}, 0, TextFormat::jsonl), "--length 9: "));
  EXPECT_TRUE(contains(refused({.train_on = TrainOn::last}, 0, TextFormat::jsonl), "--train-on last: "));
  EXPECT_TRUE(contains(refused({.train_on = TrainOn::all}, 0, TextFormat::text), "--train-on all: "));
  EXPECT_TRUE(contains(refused({}, 2, TextFormat::text), "has no conversations"));
}

TEST(Chats, ShowPrintsWhatIsTaught) {
  Chats chats;
  chats.options.show = 1;
  chats.prepare(chat_line(one_answer) + chat_line(one_answer));
  EXPECT_TRUE(contains(chats.facts,
                       "document 1, for training: 64 tokens, 12 taught\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
                       "{+A<|im_end|>\n+}\nids: 60 124 105 109"))
      << chats.facts;
  EXPECT_TRUE(contains(chats.facts, " 116 10 {+65 60 124 105 109 95 101 110 100 124 62 10+}\nends with: 10 (\\n), taught\n"))
      << chats.facts;
  EXPECT_FALSE(contains(chats.facts, "document 2"));
  chats.options.show = 9;
  chats.options.chats = {};
  chats.prepare("{\"prompt\": \"a\", \"completion\": \"c\"}\n{\"text\": \"b\"}\n");
  EXPECT_TRUE(contains(chats.facts, "document 1, for training: 3 tokens, 2 taught\na{+c\n+}\nids: 97 {+99 10+}\n"))
      << chats.facts;
  EXPECT_TRUE(contains(chats.facts, "document 2, for validation: 2 tokens, 2 taught\n")) << chats.facts;
}

TEST(Chats, ThreadsAndPiecesChangeNothing) {
  std::string lines;
  for (int i = 0; i < 6'000; ++i) {
    const std::string answer = std::string(static_cast<std::size_t>(i % 700), 'x') + std::to_string(i);
    lines += chat_line({{"user", "How many?"}, {"assistant", answer.c_str()}, {"user", "So?"}, {"assistant", "B"}});
  }
  std::optional<std::string> expected;
  for (const std::size_t threads : {1, 3}) {
    Chats chats;
    chats.options.threads = threads;
    chats.options.chats.length = 600;
    chats.options.chats.too_long = TooLong::cut;
    chats.prepare(lines);
    const std::string all = chats.folder.read("out/tokens.json") + chats.facts;
    if (!expected) expected = all;
    EXPECT_EQ(all, *expected);
  }
}

}  // namespace
}  // namespace lockstep::data
