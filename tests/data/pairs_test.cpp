// Pairs of answers, prepared: a window each, neighbours, and whole.

#include "data/chats.h"
#include "support/text.h"

namespace lockstep::data {
namespace {

const std::string kUser = R"({"role": "user", "content": "Hi"})";
std::string answer(const std::string& text) { return R"({"role": "assistant", "content": ")" + text + "\"}"; }
std::string listed(const std::string& chosen, const std::string& rejected) {
  return R"({"prompt": [)" + kUser + R"(], "chosen": [)" + answer(chosen) + R"(], "rejected": [)" + answer(rejected) + "]}\n";
}
std::string whole(const std::string& chosen, const std::string& rejected) {
  return R"({"prompt": "Hi", "chosen": [)" + kUser + "," + answer(chosen) + R"(], "rejected": [)" + kUser + "," +
         answer(rejected) + "]}\n";
}
std::string text(const std::string& chosen, const std::string& rejected) {
  return R"({"prompt": "Q:", "chosen": ")" + chosen + R"(", "rejected": ")" + rejected + "\"}\n";
}

struct Pairs : Chats {
  explicit Pairs(std::int64_t length = 80) { options.chats.length = length; }
};

TEST(Pairs, EachAnswerHasAWindowAndNeighboursArePairs) {
  Pairs pairs;
  pairs.prepare(listed("yes", "no") + listed("A", "B") + listed("up", "down"));
  EXPECT_TRUE(contains(pairs.facts, "found: preferences (prompt, chosen, rejected), written by chatml; compared: the answers"))
      << pairs.facts;
  EXPECT_TRUE(contains(pairs.facts, "train: 4 documents in 4 windows of 80 tokens"));
  EXPECT_TRUE(contains(pairs.facts, "val: 2 documents in 2 windows of 80 tokens"));
  const auto part = pairs.part("train");
  ASSERT_EQ(part.ids.size(), 4U * 80 + 1);
  const std::string head = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", end = "<|im_end|>\n";
  const auto window = [&](std::size_t i) { return part.text.substr(i * 80, 80); };
  for (const auto& [i, said] : {std::pair(0, "yes"), {1, "no"}, {2, "A"}, {3, "B"}})
    EXPECT_TRUE(window(static_cast<std::size_t>(i)).starts_with(head + said + end)) << i;
  EXPECT_EQ(part.taught, "yes" + end + "no" + end + "A" + end + "B" + end);
  Log quiet;
  const auto packing = open_corpus(pairs.folder.path("out"), {}, quiet).packing;
  EXPECT_TRUE(packing && packing->pairs && packing->length == 80);
}

TEST(Pairs, APromptMayBeWhatBothBeginWith) {
  Pairs one, other;
  one.prepare(listed("yes", "no") + listed("A", "B"));
  other.prepare(whole("yes", "no") + whole("A", "B"));
  for (const char* split : {"train", "val"}) EXPECT_EQ(one.part(split).marked, other.part(split).marked);
}

// As LLaMA-Factory has them (data/dpo_en_demo.json).
TEST(Pairs, AnAnswerMayBeOneMessageBehindAConversation) {
  const auto row = [](const char* yes, const char* no) {
    return std::string(R"({"conversations": [{"from": "human", "value": "Hi"}], "chosen": {"from": "gpt", "value": ")") + yes +
           R"("}, "rejected": {"from": "gpt", "value": ")" + no + "\"}}\n";
  };
  Pairs one, other;
  one.prepare(listed("yes", "no") + listed("A", "B"));
  other.prepare(row("yes", "no") + row("A", "B"));
  EXPECT_FALSE(contains(other.facts, "not read")) << other.facts;
  for (const char* split : {"train", "val"}) EXPECT_EQ(one.part(split).marked, other.part(split).marked);
}

// Rows of OpenAI's fine-tuning, of Anthropic's HH-RLHF, of LLaMA-Factory (data/README.md, "Preference Dataset"), and of axolotl
// (prompt_strategies/dpo/chat_template.py).
TEST(Pairs, FormsOfOthersAreTheSamePairs) {
  const auto openai = [](const std::string& yes, const std::string& no) {
    return R"({"input": {"messages": [)" + kUser + R"(], "tools": [], "parallel_tool_calls": true}, "preferred_output": [)" +
           answer(yes) + R"(], "non_preferred_output": [)" + answer(no) + "]}\n";
  };
  const auto anthropic = [](const std::string& yes, const std::string& no) {
    const std::string start = "\"\\n\\nHuman: Hi\\n\\nAssistant: ";
    return R"({"chosen": )" + start + yes + R"(", "rejected": )" + start + no + "\"}\n";
  };
  const auto alpaca = [](const std::string& yes, const std::string& no) {
    return R"({"instruction": "Hi", "input": "", "chosen": ")" + yes + R"(", "rejected": ")" + no + "\"}\n";
  };
  const auto axolotl = [](const std::string& yes, const std::string& no) {
    return R"({"messages": [)" + kUser + R"(], "chosen": )" + answer(yes) + R"(, "rejected": ")" + no + "\"}\n";
  };
  Pairs one;
  one.prepare(listed("yes", "no") + listed("A", "B"));
  for (const auto& rows : {axolotl("yes", "no") + axolotl("A", "B"), openai("yes", "no") + openai("A", "B"),
                           anthropic("yes", "no") + anthropic("A", "B"), alpaca("yes", "no") + alpaca("A", "B"),
                           openai("yes", "no") + listed("A", "B")}) {
    Pairs other;
    other.prepare(rows);
    EXPECT_FALSE(contains(other.facts, "not read")) << other.facts;
    for (const char* split : {"train", "val"}) EXPECT_EQ(one.part(split).marked, other.part(split).marked) << rows;
  }
  Pairs more(160);
  more.prepare(R"({"system": "S", "instruction": "Add.", "input": "1 2", "chosen": "3", "rejected": "4"})"
               "\n" +
               alpaca("A", "B"));
  EXPECT_TRUE(more.part("train").text.starts_with("<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nAdd.\n1 2<|im_end|>\n"));
  more.prepare(R"({"chosen": "\n\nHuman: a\n\nAssistant: b\n\nHuman: c\nd\n\nAssistant: e", )"
               R"("rejected": "\n\nHuman: a\n\nAssistant: b\n\nHuman: c\nd\n\nAssistant:"})"
               "\n" +
               anthropic("A", "B"));
  EXPECT_EQ(more.part("train").taught, "e<|im_end|>\n<|im_end|>\n");
  const auto refused = [&](const std::string& row, const std::string& message) {
    const std::string said = more.refused(openai("yes", "no") + row);
    EXPECT_TRUE(contains(said, "line 2: " + message)) << said;
  };
  refused(openai("same", "same"), "\"preferred_output\" and \"non_preferred_output\" are the same");
  refused(alpaca("yes", "no"), "its answers are texts behind an instruction, and those of the first row messages");
  refused(R"({"input": "Hi", "preferred_output": [)" + answer("a") + R"(], "non_preferred_output": [)" + answer("b") + "]}",
          "\"preferred_output\" and \"non_preferred_output\" begin with different messages");
  refused(openai("yes", std::string(160, 'x')), "with \"non_preferred_output\": the conversation has ");
}

TEST(Pairs, TextsNeedNoTemplate) {
  Pairs pairs(10);
  pairs.options.chats.chat_template.clear();
  pairs.prepare(text("yes", "no") + text("A", "B"));
  EXPECT_EQ(pairs.part("train").text.substr(0, 15), "Q:yes\n\xFF\xFF\xFF\xFFQ:no\n");
  EXPECT_EQ(pairs.part("train").taught, "yes\nno\n");
}

TEST(Pairs, APairThatIsTooLongGoesWithBothAnswers) {
  Pairs pairs(70);
  pairs.options.chats.too_long = TooLong::drop;
  pairs.prepare(listed("yes", "no") + listed("a long and winding answer", "no") + listed("A", "B"));
  EXPECT_TRUE(contains(pairs.facts, "left out, as they have more than 70 tokens: 2")) << pairs.facts;
  EXPECT_EQ(pairs.part("train").ids.size(), 2U * 70 + 1);
}

TEST(Pairs, BadLinesAreToldWithTheirAnswer) {
  Pairs pairs;
  const auto refused = [&](const std::string& line, const std::string& message) {
    const std::string said = pairs.refused(listed("yes", "no") + line);
    EXPECT_TRUE(contains(said, "line 2: " + message)) << said;
  };
  refused(listed("same", "same"), "\"chosen\" and \"rejected\" are the same");
  refused(text("yes", "no"), "its answers are texts, and those of the first row messages");
  refused(R"({"chosen": [], "rejected": "no"})", "\"chosen\" and \"rejected\" are a text and a list");
  refused(R"({"chosen": 3, "rejected": "no"})", "\"chosen\" is a number, no text and no list");
  refused(R"({"chosen": [)" + answer("a") + R"(], "rejected": [)" + answer("b") + "]}", "\"chosen\" and \"rejected\" begin with");
  refused(R"({"chosen": [)" + kUser + R"(], "rejected": [)" + kUser + "," + answer("b") + "]}", "one of \"chosen\" and");
  refused(R"({"prompt": [)" + kUser + R"(], "chosen": [)" + answer("a") + R"(], "rejected": [{"role": 3}]})",
          "with \"rejected\": \"completion\", message 1: \"role\"");
  refused(listed("yes", std::string(90, 'x')), "with \"rejected\": the conversation has ");
  refused(R"({"prompt": [)" + answer("b") + R"(], "chosen": [)" + kUser + R"(], "rejected": [)" + answer("b") + "]}",
          "an answer of the pair teaches nothing");
  refused(
      R"({"prompt": [)" + kUser + R"(], "chosen": [)" + kUser + "," + answer("a") + R"(], "rejected": [)" + answer("b") + "]}",
      "\"chosen\" begins with all messages of its prompt");
}

TEST(Pairs, OptionsThatPairsCannotHaveAreRefused) {
  const std::string lines = listed("yes", "no") + listed("A", "B");
  const auto refused = [&](const auto& change, const std::string& message) {
    Pairs pairs;
    change(pairs.options);
    const std::string said = pairs.refused(lines);
    EXPECT_TRUE(contains(said, message)) << said;
  };
  refused([](PrepareOptions& o) { o.chats.length = 0; }, "it has pairs, and nothing says how long their windows are");
  refused([](PrepareOptions& o) { o.chats.train_on = TrainOn::all; }, "--train-on all: pairs are compared by their answers");
  refused([](PrepareOptions& o) { o.chats.too_long = TooLong::cut; }, "--too-long cut: an answer that is cut");
  refused([](PrepareOptions& o) { o.shards = 2; }, "--shards 2: pairs are not cut into shards");
  Pairs alone;
  EXPECT_TRUE(contains(alone.refused(listed("yes", "no")), "has 2 documents that are not empty"));
}

}  // namespace
}  // namespace lockstep::data
