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
