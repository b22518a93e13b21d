// `eval` as a user types it: windows and strides, token files of other programs, weights that are not finite.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "app/train_command.h"
#include "support/megatron.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

class EvalCommand : public TrainCommand {
 protected:
  void SetUp() override {
    TrainCommand::SetUp();
    ASSERT_EQ(lockstep(words("run")).code, 0);
  }
  /// The first ids of val.bin as a file of another folder, which nothing describes.
  std::vector<std::uint16_t> ids(std::size_t count) const {
    const std::string bytes = io::read_file(folder_ / "data/val.bin");
    std::vector<std::uint16_t> all(count);
    std::memcpy(all.data(), bytes.data(), 2 * count);
    return all;
  }
  std::string file(const std::string& name, const std::string& bytes) const {
    io::replace_file(folder_ / name, bytes);
    return folder_ / name;
  }
  Outcome eval(std::vector<std::string> more) const {
    more.insert(more.begin(), {"eval", "--model", folder_ / "run", "--threads", "1"});
    return lockstep(more);
  }
  Json facts(std::vector<std::string> more) const {
    more.emplace_back("--json");
    const Outcome outcome = eval(std::move(more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? Json::parse(outcome.out) : Json(Json::Object{{"loss", 0}, {"tokens", 0}, {"stride", 0}});
  }
  void refused(std::vector<std::string> more, const std::string& said) const {
    const Outcome outcome = eval(std::move(more));
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("model.block_size"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("data.ids"), std::string::npos) << outcome.err;
  }
};

TEST_F(EvalCommand, EveryTargetCountsOnce) {
  const std::string tokens = file("t.bin", bytes_of(ids(101)));
  for (const char* length : {"12", "7", "1"}) {
    for (const char* stride : {"1", "5", ""}) {
      std::vector<std::string> asked{"--tokens", tokens, "--length", length};
      if (*stride != '\0' && std::stoi(stride) <= std::stoi(length)) asked.insert(asked.end(), {"--stride", stride});
      EXPECT_EQ(facts(asked).at("tokens").integer(), 100) << length << stride;
    }
  }
  // A part behind the other has the sum of both.
  const Json head = facts({"--tokens", file("h.bin", bytes_of(ids(97))), "--length", "12"});  // 8 windows
  const std::vector<std::uint16_t> all = ids(101);
  const Json tail = facts({"--tokens", file("s.bin", bytes_of(std::vector<std::uint16_t>(all.begin() + 96, all.end())))});
  EXPECT_EQ(tail.at("tokens").integer(), 4);
  EXPECT_NEAR(facts({"--tokens", tokens}).at("loss").number() * 100, head.at("loss").number() * 96 + tail.at("loss").number() * 4,
              1e-3);
}

TEST_F(EvalCommand, AStrideOfOneForetellsEachTokenFromAllBeforeIt) {
  const std::vector<std::uint16_t> all = ids(20);
  double sum = 0;
  // Targets 1 to 12 in the first window, each later one as the last of a window of its own.
  sum +=
      12 *
      facts({"--tokens", file("f.bin", bytes_of(std::vector<std::uint16_t>(all.begin(), all.begin() + 13)))}).at("loss").number();
  for (int at = 13; at < 20; ++at) {
    const auto part = [&](int first, int last) {
      return file("p.bin", bytes_of(std::vector<std::uint16_t>(all.begin() + first, all.begin() + last)));
    };
    sum += 12 * facts({"--tokens", part(at - 12, at + 1)}).at("loss").number();
    sum -= 11 * facts({"--tokens", part(at - 12, at)}).at("loss").number();
  }
  const Json whole = facts({"--tokens", file("w.bin", bytes_of(all)), "--stride", "1"});
  EXPECT_EQ(whole.at("tokens").integer(), 19);
  EXPECT_EQ(whole.at("stride").integer(), 1);
  EXPECT_NEAR(whole.at("loss").number() * 19, sum, 1e-3);
}

TEST_F(EvalCommand, LayoutsAgreeOnTailsAndStrides) {
  const std::string tokens = file("t.bin", bytes_of(ids(101)));
  const std::vector<std::string> asked{"--tokens", tokens, "--length", "9", "--stride", "4"};
  const auto on = [&](std::vector<std::string> layout) {
    layout.insert(layout.end(), asked.begin(), asked.end());
    return facts(layout);
  };
  const Json one = on({});
  EXPECT_EQ(on({"--ranks", "3"}).dump(), one.dump());
  EXPECT_EQ(on({"--layout", "pp=2"}).dump(), one.dump());
  const Json split = on({"--layout", "tp=2"});
  EXPECT_EQ(split.at("tokens").integer(), 100);
  EXPECT_NEAR(split.at("loss").number(), one.at("loss").number(), 1e-5);
}

// A run that was trained by canonical sums is read by them, and written with.
TEST_F(EvalCommand, CanonicalSumsAreTheSameOnTensorRanks) {
  ASSERT_EQ(lockstep(words("sums", {"numerics.canonical=true", "model.n_layer=3", "model.n_head=4", "model.n_kv_head=4"})).code,
            0);
  const auto read = [&](const std::string& run, const std::string& layout) {
    const std::string logits = folder_ / "logits.safetensors";
    const Outcome outcome =
        lockstep({"eval", folder_ / run, "--split", "val", "--layout", layout, "--threads", "1", "--logits", logits});
    EXPECT_EQ(outcome.code, 0) << layout << outcome.err;
    const std::string found = io::read_file(logits);
    fs::remove(logits);
    return found;
  };
  const std::string one = read("sums", "dp=1");
  for (const char* layout : {"tp=2", "tp=4", "pp=3", "dp=2,tp=2", "tp=2,canonical"})
    EXPECT_TRUE(read("sums", layout) == one) << layout;
  EXPECT_FALSE(read("run", "canonical") == read("run", "dp=1"));
  EXPECT_TRUE(read("run", "tp=2,canonical") == read("run", "canonical"));
  const auto text_of = [&](const std::string& layout) {
    return lockstep({"generate", folder_ / "sums", "--layout", layout, "--prompt", "the", "--tokens", "50"}).out;
  };
  EXPECT_EQ(text_of("tp=4"), text_of("dp=1"));
  const Outcome odd = lockstep({"eval", folder_ / "sums", "--split", "val", "--layout", "tp=3"});
  EXPECT_EQ(odd.code, 0) << odd.err;
  EXPECT_NE(odd.err.find("not read by the canonical sums"), std::string::npos) << odd.err;
  refused({"--split", "val", "--layout", "tp=3,canonical"}, "canonical sums by 8 ranges");
}

TEST_F(EvalCommand, ShortTextsAreReadAndWhatCannotBeIsRefused) {
  const Json two = facts({"--tokens", file("two.bin", bytes_of(ids(2)))});
  EXPECT_EQ(two.at("tokens").integer(), 1);
  EXPECT_EQ(two.at("length").integer(), 1);
  refused({"--tokens", file("one.bin", bytes_of(ids(1)))}, "has one token: nothing in it is foretold");
  refused({file("two.bin", bytes_of(ids(2))), "--split", "val"}, "--split val: ");
  refused({"--length", "13"}, "--length 13: the model reads 1 to 12 tokens");
  refused({"--stride", "0"}, "--stride 0: windows of 12 tokens have one of 1 to 12");
  refused({"--length", "4", "--stride", "5"}, "--stride 5: windows of 4 tokens");
  const Outcome shown = eval({"--stride", "5"});
  EXPECT_NE(shown.out.find("of 12 tokens, one every 5"), std::string::npos) << shown.out;
  EXPECT_TRUE(facts({}).find("bits_per_byte") != nullptr);
}

TEST_F(EvalCommand, ReadsTokenFilesOfOtherPrograms) {
  const std::vector<std::uint16_t> narrow = ids(600);
  const std::vector<std::int32_t> wide(narrow.begin(), narrow.end());
  const Json expected = facts({"--tokens", file("raw.bin", bytes_of(narrow))});
  std::vector<std::int32_t> header(256);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = 600;
  EXPECT_EQ(facts({"--tokens", file("llmc.bin", bytes_of(header) + bytes_of(narrow))}).dump(), expected.dump());
  const std::string four = file("four.bin", bytes_of(wide));
  refused({"--tokens", four}, "ids of 4 bytes fit: --ids int32");
  EXPECT_EQ(facts({"--tokens", four, "--ids", "int32"}).dump(), expected.dump());
  EXPECT_EQ(eval({"--tokens", four, "--ids", "float"}).code, 2);
  const MegatronData megatron{.documents = {{{wide.begin(), wide.begin() + 200}}, {{wide.begin() + 200, wide.end()}}}};
  file("m.idx", megatron.index(5, 8));
  EXPECT_EQ(facts({"--tokens", file("m.bin", megatron.tokens(8))}).dump(), expected.dump());
  refused({"--data", folder_ / "data", "--ids", "int64"}, "--ids int64: ");
}

TEST_F(EvalCommand, ATextIsReadByTheModelsOwnTokenizer) {
  const std::string whole = io::read_file(folder_ / "text.txt");  // validation is its last tenth
  const std::string text = whole.substr(whole.size() * 9 / 10);
  const Json prepared = facts({"--data", folder_ / "data"}), plain = facts({file("part.txt", text)});
  ASSERT_EQ(static_cast<std::size_t>(plain.at("tokens").integer()), text.size() - 1);
  EXPECT_EQ(plain.dump(), prepared.dump());
  EXPECT_EQ(facts({file("part.txt", text), "--ranks", "2"}).dump(), prepared.dump());
  EXPECT_EQ(facts({file("short.txt", "the fox")}).at("tokens").integer(), 6);
  refused({file("other.txt", "the quick \u00FCber fox")},
          "other.txt has characters that the model's tokenizer does not have: \u00FC\n  -> leave them out of the text");
  refused({file("rows.jsonl", "{\"text\": \"the fox\"}\n{\"text\": \"the dog\"}\n")}, "has a document a row, and no text");
  refused({file("part.txt", text), "--ids", "uint16"}, "part.txt is text, not token ids");
}

TEST_F(EvalCommand, ATextForAModelWithoutATokenizerIsRefused) {
  fs::create_directories(folder_ / "raw");
  for (const char* name : {"raw/train.bin", "raw/val.bin"}) file(name, bytes_of(ids(600)));
  ASSERT_EQ(lockstep(words("nameless", {"data.dir=" + (folder_ / "raw").string(), "model.vocab_size=90"})).code, 0);
  const Outcome outcome = lockstep({"eval", folder_ / "nameless", folder_ / "text.txt"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("was trained on token ids without a tokenizer\n  -> prepare it with the tokenizer"),
            std::string::npos)
      << outcome.err;
}

TEST_F(EvalCommand, ARunsOwnTypeOfIdsIsKnown) {
  fs::create_directories(folder_ / "raw");
  std::vector<std::int32_t> wide(20000);
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<std::int32_t>(i * i % 90);
  file("raw/train.bin", bytes_of(wide));
  file("raw/val.bin", bytes_of(wide));
  const std::string data = "data.dir=" + (folder_ / "raw").string();
  const Outcome untold = lockstep(words("untold", {data, "model.vocab_size=90"}));
  EXPECT_EQ(untold.code, 2);
  EXPECT_NE(untold.err.find("ids of 4 bytes fit: data.ids=int32"), std::string::npos) << untold.err;
  ASSERT_EQ(lockstep(words("wide", {data, "model.vocab_size=90", "data.ids=int32"})).code, 0);
  const Outcome outcome = lockstep({"eval", "--model", folder_ / "wide", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out).at("tokens").integer(), 19999);
  const Outcome other = lockstep(words("other", {"data.ids=int64"}));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("data.ids=int64: "), std::string::npos) << other.err;
}

TEST_F(EvalCommand, WeightsThatAreNotFiniteAreRefusedEverywhere) {
  ASSERT_EQ(lockstep({"convert", folder_ / "run", folder_ / "hf"}).code, 0);
  std::string bytes = io::read_file(folder_ / "hf/model.safetensors");
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const float bad = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + sizeof header + header, &bad, sizeof bad);
  file("hf/model.safetensors", bytes);
  const std::string model = folder_ / "hf";
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"eval", "--model", model, "--data", folder_ / "data", "--json"},
        {"eval", "--model", model, "--data", folder_ / "data", "--layout", "tp=2"},
        {"eval", "--model", model, "--data", folder_ / "data", "--dtype", "bf16"},
        {"generate", "--model", model, "--prompt", "the"},
        {"convert", model, folder_ / "back"},
        words("next", {"train.init_from=" + model})}) {
    const Outcome outcome = lockstep(command);
    EXPECT_EQ(outcome.code, 2) << command[0] << outcome.out;
    EXPECT_NE(outcome.err.find("has weights that are not finite"), std::string::npos) << command[0] << outcome.err;
    EXPECT_EQ(outcome.out.find("loss"), std::string::npos) << outcome.out;
  }
  EXPECT_FALSE(fs::exists(folder_ / "back"));
}

TEST_F(EvalCommand, ALossBeyondNumbersIsAnError) {
  ASSERT_EQ(lockstep({"convert", folder_ / "run", folder_ / "hf"}).code, 0);
  std::string bytes = io::read_file(folder_ / "hf/model.safetensors");
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const float huge = 3e38F;
  for (std::size_t at = sizeof header + header; at < bytes.size(); at += sizeof huge)
    std::memcpy(bytes.data() + at, &huge, sizeof huge);
  file("hf/model.safetensors", bytes);
  const Outcome outcome = lockstep({"eval", "--model", folder_ / "hf", "--data", folder_ / "data", "--json"});
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_NE(outcome.err.find("is not finite"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace lockstep::app
