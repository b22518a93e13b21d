// Where tokens and a model meet, the model knows the tokens: text without a description, weights of a smaller model, a published
// model's tokenizer, samples.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "app/train_command.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

class Vocabulary : public TrainCommand {
 protected:
  /// A folder of ids without tokens.json; id number `at` of train.bin is 300, the others are below 90.
  std::string raw_ids(std::size_t at) const {
    std::vector<std::uint16_t> ids(20000);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::uint16_t>(i % 90);
    const auto bytes = [&] { return std::string_view(reinterpret_cast<const char*>(ids.data()), 2 * ids.size()); };
    fs::create_directories(folder_ / "raw");
    io::replace_file(folder_ / "raw/val.bin", bytes());
    ids[at] = 300;
    io::replace_file(folder_ / "raw/train.bin", bytes());
    return "data.dir=" + (folder_ / "raw").string();
  }
  void refused(const std::vector<std::string>& words, const std::string& said) const {
    const Outcome outcome = lockstep(words);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
  }
};

TEST_F(Vocabulary, IdsWithoutADescriptionAreCheckedAgainstTheModelBeforeTheFirstStep) {
  const std::string data = raw_ids(19000);  // far behind what a glance at the start would see
  const std::string said = "train.bin: token 19000 has id 300, above the vocabulary of 100";
  refused(words("a", {data, "model.vocab_size=100"}), said);
  EXPECT_FALSE(fs::exists(folder_ / "a/metrics.jsonl"));
  EXPECT_EQ(lockstep(words("b", {data, "model.vocab_size=301"})).code, 0);
  refused(words("c", {data, "--ranks", "2", "model.vocab_size=100"}), said);
}

TEST_F(Vocabulary, WeightsOfASmallerModelDoNotReadTokensThatTheyDoNotKnow) {
  ASSERT_EQ(lockstep(words("small")).code, 0);
  refused(words("a", {raw_ids(19000), "train.init_from=" + (folder_ / "small").string()}), "above the vocabulary of");
}

TEST_F(Vocabulary, ADescribedTextOfMoreTokensThanTheModelIsRefused) {
  refused(words("a", {"model.vocab_size=20"}), "the model one of 20");
  EXPECT_EQ(lockstep(words("a", {"model.vocab_size=20"})).err.find("leave out"), std::string::npos);
}

// The ids of each mean other text to the other, and nothing but the loss would show it.
TEST_F(Vocabulary, ATextOfAnotherTokenizerThanTheModelsIsRefused) {
  const auto at = [&](const char* name) { return (folder_ / name).string(); };
  ASSERT_EQ(lockstep({"prepare", at("text.txt"), "--tokenizer", "bpe:260", "--out", at("pieces")}).code, 0);
  ASSERT_EQ(lockstep(words("run", {"data.dir=" + at("pieces")})).code, 0);
  ASSERT_EQ(lockstep({"convert", at("run"), at("model")}).code, 0);
  for (const char* from : {"run", "model"}) {
    const std::vector<std::string> start{"train", at("data"), "train.init_from=" + at(from), "log.dir=" + at("next")};
    const std::vector<std::string> evaluate{"eval", at(from), at("data")};
    for (const auto& call : {start, evaluate}) {
      refused(call, "was prepared with another tokenizer than the model's: char of 39 tokens, where token 0 is \"\\n\"; of " +
                        at(from) + ": bpe of 260 tokens, where token 0 is \"\\u0000\"");
    }
    EXPECT_FALSE(fs::exists(folder_ / "next/metrics.jsonl"));
  }
  refused({"eval", at("model"), at("data/val.bin")}, "prepare TEXT --tokenizer hf:" + at("model") + " --out DATA");
  refused({"eval", at("run"), at("data")}, "--tokenizer hf:FOLDER --out DATA, where FOLDER has its tokenizer.json");
}

TEST_F(Vocabulary, ATextOfTheSameTokensByAnotherFileIsTaken) {
  const auto at = [&](const char* name) { return (folder_ / name).string(); };
  ASSERT_EQ(lockstep({"prepare", at("text.txt"), "--tokenizer", "bpe:260", "--out", at("pieces")}).code, 0);
  ASSERT_EQ(lockstep(words("run", {"data.dir=" + at("pieces")})).code, 0);
  Json tokenizer = Json::parse(io::read_file(folder_ / "pieces/tokenizer.json"));
  Json model = tokenizer.at("model"), vocab = model.at("vocab");
  tokenizer.set("model", model.set("vocab", vocab.set("<|more|>", 260)));
  io::replace_file(folder_ / "tokenizer.json", tokenizer.dump());
  ASSERT_EQ(lockstep({"prepare", at("text.txt"), "--tokenizer", "hf:" + at("tokenizer.json"), "--out", at("more")}).code, 0);
  EXPECT_EQ(lockstep({"eval", at("run"), at("more")}).code, 0);
}

// Tokens of a model's special_tokens_map.json may have no row in its table, as transformers has it.
TEST_F(Vocabulary, ATokenThatTheModelHasNoRowForIsRefusedWhereATextHasIt) {
  const auto at = [&](const char* name) { return (folder_ / name).string(); };
  ASSERT_EQ(lockstep({"prepare", at("text.txt"), "--tokenizer", "bpe:260", "--out", at("pieces")}).code, 0);
  ASSERT_EQ(lockstep(words("run", {"data.dir=" + at("pieces")})).code, 0);
  ASSERT_EQ(lockstep({"convert", at("run"), at("model")}).code, 0);
  io::replace_file(folder_ / "model/special_tokens_map.json", R"({"pad_token": "[PAD]"})");
  io::replace_file(folder_ / "padded.txt", io::read_file(folder_ / "text.txt") + "[PAD]");
  const auto train = [&](const char* text) {
    EXPECT_EQ(lockstep({"prepare", at(text), "--tokenizer", "hf:" + at("model"), "--out", at(text) + "s"}).code, 0);
    return std::vector<std::string>{"train", at(text) + "s", "train.init_from=" + at("model"), "log.dir=" + at("next"),
                                    "train.max_iters=1"};
  };
  refused(train("padded.txt"), "has tokens of a vocabulary of 261, the model one of 260: token 260 is none of the model's");
  EXPECT_EQ(lockstep(train("text.txt")).code, 0);
  refused({"generate", at("model"), "--prompt", "a[PAD]"}, "the prompt's \"[PAD]\" is token 260 of the tokenizer, but the model");
}

TEST_F(Vocabulary, ALostDescriptionIsNamedOnAResume) {
  ASSERT_EQ(lockstep(words("run", {"train.max_iters=2", "train.eval_interval=2"})).code, 0);
  fs::remove(folder_ / "data/tokens.json");
  const std::vector<std::string> again = words("run", {"train.init_from=resume", "train.max_iters=3"});
  refused(again, "data has no tokens.json, and the text that the run was trained on had one");
  refused(again, " prepare TEXT --out ");
}

TEST_F(Vocabulary, AFileInPlaceOfTokensIsNamed) {
  const std::string text = (folder_ / "text.txt").string(), bin = (folder_ / "data/train.bin").string();
  refused(words("a", {"data.dir=" + text}), text + " is a file, not a folder with token files");
  refused(words("a", {"data.dir=" + text}), " prepare " + text + " --out " + (folder_ / "text_tokens").string());
  refused(words("a", {"data.dir=" + bin}), "name the folder that it lies in: " + (folder_ / "data").string());
}

TEST_F(Vocabulary, APromptOfTokensThatTheModelLacksIsRefused) {
  const fs::path golden = "tests/golden/data";
  fs::create_directories(folder_ / "model");
  for (const char* name : {"config.json", "model.safetensors"})
    fs::copy_file(golden / "huggingface/gpt2" / name, folder_ / "model" / name);
  const Json tokens = Json::parse(io::read_file(golden / "tokens.json"));
  io::replace_file(folder_ / "model/tokenizer.json", tokens.at("small").array()[2].at("tokenizer").dump());
  const std::string model = (folder_ / "model").string();
  refused({"generate", "--model", model, "--prompt", "zzz"}, "of the tokenizer, but the model has a vocabulary of 47");
  refused({"generate", "--model", model, "--prompt", std::string(200000, 'z')}, "the model has a vocabulary of 47");
}

TEST_F(Vocabulary, TokensThatATokenizerLacksAreNotDrawn) {
  const std::vector<std::string> padded = {"model.vocab_size=512", "sample.tokens=200", "sample.temperature=100",
                                           "log.style=wordplay", "sample.top_k=null"};
  const Outcome outcome = lockstep(words("a", padded));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("['response']"), std::string::npos);
  EXPECT_EQ(outcome.err, "");
  const Outcome text = lockstep({"generate", "--model", folder_ / "a", "--prompt", "the", "--tokens", "200", "--samples", "3",
                                 "--temperature", "100", "--top-k", "0"});
  EXPECT_EQ(text.code, 0) << text.err;
}

TEST_F(Vocabulary, APromptThatIsNotUtf8IsRefused) {
  refused(words("a", {"sample.prompt=\xff\xfe"}), "'sample.prompt=...': byte 14 is not UTF-8");
  EXPECT_FALSE(fs::exists(folder_ / "a"));
}

TEST_F(Vocabulary, DroppedCharactersOfThePromptAreToldOnce) {
  const Outcome outcome = lockstep(words("a", {"sample.prompt=the \xE2\x82\xAC"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string said = "dropped from the prompt";
  const std::size_t first = outcome.out.find(said);
  ASSERT_NE(first, std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find(said, first + 1), std::string::npos);
}

TEST_F(Vocabulary, ALongEvaluationIsAnnounced) {
  const std::string said = "An evaluation reads 4 batches of 48 tokens";
  EXPECT_NE(lockstep(words("slow", {"train.peak_tflops=1e-9"})).out.find(said), std::string::npos);
  EXPECT_EQ(lockstep(words("fast")).out.find(said), std::string::npos);
}

// A rank of a text that was cut opens its shard alone: the whole need not be there.
TEST_F(Vocabulary, AShardIsAllThatItsRankOpens) {
  const std::string data = (folder_ / "cut").string();
  ASSERT_EQ(lockstep({"prepare", folder_ / "text.txt", "--shards", "2", "--out", data}).code, 0);
  const std::vector<std::string> more{"data.dir=" + data, "data.shards=precut", "--ranks", "2"};
  ASSERT_EQ(lockstep(words("with", more)).code, 0);
  fs::remove(folder_ / "cut/train.bin");
  const Outcome outcome = lockstep(words("without", more));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(losses("without"), losses("with"));
  std::string bytes = io::read_file(folder_ / "cut/train-00001-of-00002.bin");
  bytes[100] = static_cast<char>(bytes[100] ^ 1);
  io::replace_file(folder_ / "cut/train-00001-of-00002.bin", bytes);
  refused(words("damaged", more), "train-00001-of-00002.bin is not the file that tokens.json describes");
}

}  // namespace
}  // namespace lockstep::app
