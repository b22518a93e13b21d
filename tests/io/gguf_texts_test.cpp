// What a GGUF file says of the texts in a model's folder.

#include <gtest/gtest.h>

#include "io/gguf.h"

namespace lockstep::io {
namespace {

// A GGUF file names tokens by their ids, tokenizer_config.json by their texts.
TEST(GgufTexts, NameTheTokensThatAreFoundInTexts) {
  Json pairs(Json::Object{{"tokenizer.ggml.tokens", Json::Array{"a", "<s>", "</s>", "<unk>", "<pad>"}},
                          {"tokenizer.ggml.token_type", Json::Array{1, 3, 4, 2, 5}},
                          {"tokenizer.ggml.bos_token_id", 1},
                          {"tokenizer.ggml.eos_token_id", 2},
                          {"tokenizer.ggml.unknown_token_id", 3},
                          {"tokenizer.ggml.padding_token_id", 4}});
  const Json config = Json::parse(texts_of_gguf(pairs).at("tokenizer_config.json").string());
  EXPECT_EQ(config.at("bos_token").string(), "<s>");
  EXPECT_EQ(config.at("eos_token").string(), "</s>");
  EXPECT_EQ(config.at("unk_token").string(), "<unk>");
  EXPECT_EQ(config.find("pad_token"), nullptr) << "no unused one";
  pairs.set("tokenizer.ggml.bos_token_id", 0).set("tokenizer.ggml.eos_token_id", 5).set("tokenizer.ggml.unknown_token_id", -1);
  EXPECT_EQ(texts_of_gguf(pairs).dump(), "{}");
  EXPECT_EQ(texts_of_gguf(Json::Object{{"tokenizer.ggml.bos_token_id", 0}}).dump(), "{}");
}

TEST(GgufTexts, HaveTheChatTemplateAndTheOneForTools) {
  const Json pairs(Json::Object{{"tokenizer.chat_template", "a"},
                                {"tokenizer.chat_templates", Json::Array{"tool_use", "rag"}},
                                {"tokenizer.chat_template.tool_use", "b"},
                                {"tokenizer.chat_template.rag", "c"}});
  EXPECT_EQ(texts_of_gguf(pairs).dump(), R"({"chat_template.jinja":"a","additional_chat_templates/tool_use.jinja":"b"})");
  EXPECT_EQ(texts_of_gguf(Json::Object{{"tokenizer.chat_template", 1}}).dump(), "{}");
}

}  // namespace
}  // namespace lockstep::io
