#include "data/corpus.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "data/support.h"
#include "support/text.h"

namespace lockstep::data {
namespace {

// What `action` logs.
template <class Action>
std::string logged(Action&& action) {
  std::FILE* out = std::tmpfile();
  Log log(out);
  action(log);
  std::string text(4096, '\0');
  std::rewind(out);
  text.resize(std::fread(text.data(), 1, text.size(), out));
  std::fclose(out);
  return text;
}

TokenDescription description() {
  return {.tokenizer = make_char_tokenizer("abc")->describe(),
          .format = {.token_bytes = 2, .vocabulary = 3},
          .characters = 110,
          .files = {{.name = "train.bin", .tokens = 100, .text_bytes = 100, .sha256 = std::string(64, '0')},
                    {.name = "val.bin", .tokens = 10, .text_bytes = 10, .sha256 = std::string(64, '0')}}};
}

// A folder with 100 and 10 tokens, described.
void fill(const Folder& folder) {
  folder.write_ids("train.bin", counting(100, 3));
  folder.write_ids("val.bin", counting(10, 3));
  write_description(folder.path(), description());
}

std::string open_error(const Folder& folder) {
  return user_error([&] {
    Log log;
    open_corpus(folder.path(), {}, log);
  });
}

TEST(Corpus, OpensWhatIsDescribed) {
  const Folder folder;
  fill(folder);
  const std::string printed = logged([&](Log& log) {
    const Corpus corpus = open_corpus(folder.path(), {}, log);
    EXPECT_EQ(corpus.train.tokens(), 100);
    EXPECT_EQ(corpus.val.tokens(), 10);
    EXPECT_EQ(corpus.vocabulary(), 3);
    EXPECT_EQ(corpus.val_text_bytes, 10);
    ASSERT_NE(corpus.tokenizer, nullptr);
    EXPECT_EQ(corpus.tokenizer->decode(std::vector<std::int32_t>{2, 0, 1}), "cab");
  });
  EXPECT_EQ(printed, "");
}

// As a rank tells another.
Corpus told_of(const Folder& folder) {
  Log log;
  return told_corpus(folder.path(), tell_corpus(folder.path(), open_corpus(folder.path(), {}, log)));
}

TEST(Corpus, IsToldToRanksThatDoNotOpenIt) {
  const Folder folder;
  fill(folder);
  const Corpus corpus = told_of(folder);
  EXPECT_EQ(corpus.train.tokens(), 100);
  EXPECT_EQ(corpus.val.path(), (std::filesystem::path(folder.path()) / "val.bin").string());
  EXPECT_EQ(corpus.vocabulary(), 3);
  EXPECT_EQ(corpus.train_text_bytes, 100);
  EXPECT_EQ(corpus.val_text_bytes, 10);
  ASSERT_NE(corpus.tokenizer, nullptr);
  EXPECT_EQ(corpus.tokenizer->decode(std::vector<std::int32_t>{2, 0, 1}), "cab");
  EXPECT_FALSE(corpus.train.masked());
}

TEST(Corpus, IsToldWithoutADescriptionToo) {
  const Folder folder;
  folder.write_ids("train.bin", counting(100, 50304));
  folder.write_ids("val.bin", counting(10, 50304));
  const Corpus corpus = told_of(folder);
  EXPECT_EQ(corpus.vocabulary(), 50304);
  EXPECT_EQ(corpus.tokenizer, nullptr);
  EXPECT_EQ(corpus.val.tokens(), 10);
}

TEST(Corpus, WithoutDescriptionIdsAreGpt2s) {
  const Folder folder;
  folder.write_ids("train.bin", counting(100, 50304));
  folder.write_ids("val.bin", counting(10, 50304));
  const auto open = [&](Log& log) {
    const Corpus corpus = open_corpus(folder.path(), {}, log);
    EXPECT_EQ(corpus.vocabulary(), 50304);
    EXPECT_EQ(corpus.tokenizer, nullptr);
    EXPECT_EQ(corpus.train.tokens(), 100);
  };
  EXPECT_TRUE(contains(logged(open), "No meta.pkl found, assuming GPT-2 encodings..."));
  folder.write("meta.pkl", "pickle");
  EXPECT_TRUE(contains(logged(open), "meta.pkl is not read"));
  folder.write_ids<std::uint16_t>("train.bin", {1, 2, 50304});
  EXPECT_TRUE(contains(open_error(folder), "token 2 has id 50304"));
}

TEST(Corpus, RefusesMissingFolderAndFiles) {
  const Folder folder;
  Log log;
  const std::string text = user_error([&] { open_corpus(folder.path("nothing"), {}, log); });
  EXPECT_TRUE(contains(text, "lockstep prepare TEXT --out " + folder.path("nothing"))) << text;
  EXPECT_TRUE(contains(open_error(folder), "train.bin"));
  fill(folder);
  std::filesystem::remove(folder.path("val.bin"));
  EXPECT_TRUE(contains(open_error(folder), "val.bin"));
}

TEST(Corpus, RefusesFilesThatContradictTheirDescription) {
  const Folder folder;
  fill(folder);
  folder.write_ids("train.bin", counting(99, 3));
  EXPECT_TRUE(contains(open_error(folder), "99 tokens, but tokens.json says 100"));
  TokenDescription changed = description();
  changed.files.erase(changed.files.begin());
  write_description(folder.path(), changed);
  EXPECT_TRUE(contains(open_error(folder), "does not describe train.bin"));
  changed = description();
  changed.format.vocabulary = 2;
  write_description(folder.path(), changed);
  folder.write_ids("train.bin", counting(100, 2));
  folder.write_ids("val.bin", counting(10, 2));
  EXPECT_TRUE(contains(open_error(folder), "its tokenizer has 3"));
}

TEST(Corpus, OpensMasksThatAreDescribed) {
  const Folder folder;
  fill(folder);
  TokenDescription masked = description();
  masked.documents = 7;
  masked.files[1].mask = MaskFacts{.name = "val.mask.bin", .targets = 4, .sha256 = std::string(64, '0')};
  write_description(folder.path(), masked);
  EXPECT_EQ(to_json(read_description(folder.path()).value()).dump(), to_json(masked).dump());
  EXPECT_TRUE(contains(open_error(folder), "val.mask.bin"));
  folder.write("val.mask.bin", "short");
  EXPECT_TRUE(contains(open_error(folder), "has 5 bytes, but"));
  folder.write("val.mask.bin", std::string("\0\0\0\0\0\0\1\1\1\1", 10));
  Log log;
  const Corpus corpus = open_corpus(folder.path(), {}, log);
  EXPECT_FALSE(corpus.train.masked());
  EXPECT_TRUE(corpus.val.masked());
  EXPECT_EQ(open_tokens(folder.path("val.bin"), {.vocabulary = 3}).targets, 4);
  EXPECT_EQ(open_tokens(folder.path("train.bin"), {.vocabulary = 3}).targets, 100);
}

TEST(Description, RefusesAMaskThatContradictsItsFile) {
  TokenDescription masked = description();
  const auto refused = [&](const std::string& name, std::int64_t targets) {
    masked.files[1].mask = MaskFacts{.name = name, .targets = targets, .sha256 = ""};
    return user_error([&] { description_from_json(to_json(masked), "x/tokens.json"); });
  };
  EXPECT_TRUE(contains(refused("../val.bin", 4), "is named \"../val.bin\", not \"val.mask.bin\""));
  EXPECT_TRUE(contains(refused("val.mask.bin", 11), "counts 11 of 10 tokens"));
  EXPECT_TRUE(contains(refused("val.mask.bin", -1), "counts -1 of 10 tokens"));
}

TEST(Corpus, FindsDamageByHash) {
  const Folder folder;
  fill(folder);
  EXPECT_EQ(damaged_files(folder.path(), description()), (std::vector<std::string>{"train.bin", "val.bin"}));
}

TEST(Description, SurvivesItsFile) {
  const Folder folder;
  TokenDescription written = description();
  written.format = {.token_bytes = 4, .vocabulary = 70000};
  write_description(folder.path(), written);
  const TokenDescription read = read_description(folder.path()).value();
  EXPECT_EQ(to_json(read).dump(), to_json(written).dump());
  EXPECT_EQ(read.format.token_bytes, 4);
  EXPECT_EQ(read.find("val.bin")->tokens, 10);
  EXPECT_EQ(read.find("test.bin"), nullptr);
}

TEST(Description, RefusesWhatItDoesNotUnderstand) {
  const auto refused = [](const std::string& key, Json value) {
    Json json = to_json(description());
    json.set(key, std::move(value));
    return user_error([&] { description_from_json(json, "x/tokens.json"); });
  };
  EXPECT_TRUE(contains(refused("format", "safetensors"), "x/tokens.json does not describe"));
  EXPECT_TRUE(contains(refused("version", 2), "version 2"));
  EXPECT_TRUE(contains(refused("dtype", "int8"), "\"int8\""));
  EXPECT_TRUE(contains(refused("vocabulary", 0), "vocabulary 0"));
  EXPECT_TRUE(contains(refused("vocabulary", 70000), "does not fit uint16"));
  EXPECT_TRUE(contains(refused("vocabulary", "many"), "x/tokens.json: "));
  const Folder folder;
  folder.write("tokens.json", "{\"format\": ");
  EXPECT_TRUE(contains(user_error([&] { read_description(folder.path()); }), "tokens.json"));
}

TEST(OpenTokens, TakesTheDescriptionBesideTheFileOrTheModelsVocabulary) {
  const Folder folder;
  folder.write_ids("f.bin", counting(7, 65));
  EXPECT_EQ(open_tokens(folder.path("f.bin"), {.vocabulary = 65}).file.tokens(), 7);
  EXPECT_EQ(open_tokens(folder.path("f.bin"), {.vocabulary = 65}).text_bytes, 0);
  folder.write_ids<std::uint32_t>("wide.bin", {0, 99999});
  EXPECT_EQ(open_tokens(folder.path("wide.bin"), {.vocabulary = 100000}).file.tokens(), 2);
  fill(folder);
  EXPECT_EQ(open_tokens(folder.path("val.bin"), {.vocabulary = 65}).file.format().vocabulary, 3);
  EXPECT_EQ(open_tokens(folder.path("val.bin"), {.vocabulary = 65}).text_bytes, 10);
  EXPECT_TRUE(contains(user_error([&] { open_tokens(folder.path("none.bin"), {.vocabulary = 65}); }), "none.bin"));
}

}  // namespace
}  // namespace lockstep::data
