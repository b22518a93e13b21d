// Tokenizers whose files lie apart in a folder.

#include "data/folder_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/support.h"
#include "data/tokenizer_choice.h"
#include "io/file.h"
#include "support/temp_folder.h"

namespace lockstep::data {
namespace {

void write(const TempFolder& folder, const std::string& name, const std::string& text) {
  io::replace_file(io::Path(folder / name), text);
}

std::string ids_of(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::int32_t> ids(tokenizer.room(text.size()));
  std::string unknown;
  ids.resize(tokenizer.encode(text, ids, unknown));
  return Json(Json::Array(ids.begin(), ids.end())).dump();
}

// Made by transformers (tests/golden/make_folder_tokenizers.py).
TEST(FolderTokenizer, FilesThatLieApartHaveTheIdsOfTransformers) {
  const Json golden = Json::parse(io::read_file("tests/golden/data/folder_tokenizers.json"));
  const Json::Array& texts = golden.at("texts").array();
  for (const Json& of : golden.at("folders").array()) {
    SCOPED_TRACE(of.at("kind").string() + " " + of.at("files").dump());
    const TempFolder folder;
    const std::string& kind = of.at("kind").string();
    for (const char* name : {"vocab.json", "merges.txt"}) {
      if (kind == "two") write(folder, name, golden.at(name).string());
    }
    if (kind != "two") write(folder, "tokenizer.json", golden.at(kind == "marked" ? "marked" : "tokenizer.json").string());
    for (const auto& [name, content] : of.at("files").object()) write(folder, name, content.dump());
    const PublishedTokenizer found = find_published_tokenizer(folder.path());
    ASSERT_TRUE(found.tokenizer) << found.fault;
    const auto named = load_tokenizer(tokenizer_choice("hf:" + folder.path().string()));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string expected = of.at("ids").array()[i].dump();
      EXPECT_EQ(ids_of(*found.tokenizer, texts[i].string()), expected) << texts[i].dump();
      EXPECT_EQ(ids_of(*named, texts[i].string()), expected) << texts[i].dump();
    }
    const std::span<const std::int32_t> front = found.tokenizer->begin_of_text();
    EXPECT_EQ(Json(Json::Array(front.begin(), front.end())).dump(), of.at("front").dump());
  }
}

TEST(FolderTokenizer, OtherFilesOfTokenizersAreNamed) {
  const TempFolder folder;
  const auto said = [&](const char* name) {
    write(folder, name, "\n\3xyz");
    return user_error([&] { load_tokenizer(tokenizer_choice("hf:" + io::Path(folder / name).string())); });
  };
  EXPECT_NE(said("tokenizer.model").find("a SentencePiece model is not read"), std::string::npos);
  EXPECT_NE(said("x.tiktoken").find("a list of tiktoken is not read"), std::string::npos);
  EXPECT_NE(user_error([&] { load_tokenizer(tokenizer_choice("hf:" + folder.path().string())); }).find("has no tokenizer.json"),
            std::string::npos);
}

TEST(FolderTokenizer, SpecialTokensThatAreTextAreRefused) {
  const Json golden = Json::parse(io::read_file("tests/golden/data/folder_tokenizers.json"));
  const TempFolder folder;
  write(folder, "tokenizer.json", golden.at("tokenizer.json").string());
  write(folder, "tokenizer_config.json", R"({"split_special_tokens": true})");
  EXPECT_NE(find_published_tokenizer(folder.path()).fault.find("\"split_special_tokens\" is true"), std::string::npos);
}

TEST(FolderTokenizer, TwoFilesOfAnotherClassAreRefusedWithIt) {
  const Json golden = Json::parse(io::read_file("tests/golden/data/folder_tokenizers.json"));
  const TempFolder folder;
  for (const char* name : {"vocab.json", "merges.txt"}) write(folder, name, golden.at(name).string());
  write(folder, "tokenizer_config.json", R"({"tokenizer_class": "RobertaTokenizerFast"})");
  EXPECT_NE(find_published_tokenizer(folder.path()).fault.find("of a RobertaTokenizer, but no tokenizer.json"),
            std::string::npos);
  write(folder, "tokenizer_config.json", "{}");
  write(folder, "config.json", R"({"model_type": "bart"})");
  EXPECT_NE(find_published_tokenizer(folder.path()).fault.find("of a tokenizer of bart"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::data
