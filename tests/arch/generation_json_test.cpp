// generation_config.json of published models.

#include "arch/huggingface/generation_json.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace lockstep::arch::huggingface {
namespace {

Generation read(const std::string& text) { return generation_from_json(Json::parse(text), "generation_config.json"); }
std::string refusal(const std::string& text) {
  try {
    static_cast<void>(read(text));
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(GenerationJson, IsReadAsItWasPublished) {
  const Generation llama = read(R"({"bos_token_id": 128000, "do_sample": true, "eos_token_id": [128001, 128008, 128009],
                                    "temperature": 0.6, "top_p": 0.9, "transformers_version": "4.42.3"})");
  EXPECT_EQ(llama.ends, (std::vector<std::int64_t>{128001, 128008, 128009}));
  EXPECT_EQ(llama.temperature, 0.6);
  EXPECT_EQ(llama.top_p, 0.9);
  EXPECT_EQ(llama.top_k, 50) << "transformers' default";
  EXPECT_TRUE(llama.undone.empty());
  const Generation qwen = read(R"({"bos_token_id": 151643, "pad_token_id": 151643, "do_sample": true,
      "eos_token_id": [151645, 151643], "repetition_penalty": 1.05, "temperature": 0.7, "top_p": 0.8, "top_k": 20,
      "transformers_version": "4.37.0"})");
  EXPECT_EQ(qwen.top_k, 20);
  EXPECT_EQ(qwen.undone, (std::vector<std::string>{"repetition_penalty is 1.05"}));
  const Generation gpt2 = read(R"({"_from_model_config": true, "bos_token_id": 50256, "eos_token_id": 50256,
                                   "transformers_version": "4.26.0.dev0"})");
  EXPECT_EQ(gpt2, (Generation{.ends = {50256}}));
}

TEST(GenerationJson, WithoutSamplingTheLikeliestTokenIsTaken) {
  EXPECT_EQ(read(R"({"do_sample": false, "temperature": 0.7})").temperature, 0);
  EXPECT_EQ(read(R"({"temperature": 0.7})").temperature, 0.7);
  EXPECT_EQ(read(R"({"temperature": 0.7})").top_k, std::nullopt);
  EXPECT_EQ(read(R"({"do_sample": true})").temperature, 1);
}

TEST(GenerationJson, WhatIsNotDoneIsNamed) {
  for (const char* key : {"repetition_penalty", "no_repeat_ngram_size", "num_beams", "bad_words_ids", "forced_bos_token_id",
                          "forced_eos_token_id", "begin_suppress_tokens", "min_p", "typical_p", "min_new_tokens", "sequence_bias",
                          "guidance_scale", "exponential_decay_length_penalty", "penalty_alpha"}) {
    const Generation found = read("{\"" + std::string(key) + "\": [[7]]}");
    ASSERT_EQ(found.undone.size(), 1U) << key;
    EXPECT_EQ(found.undone.front(), std::string(key) + " is [[7]]");
    EXPECT_TRUE(read("{\"" + std::string(key) + "\": null}").undone.empty()) << key;
  }
  EXPECT_TRUE(read(R"({"repetition_penalty": 1.0, "num_beams": 1, "min_p": 0.0, "bad_words_ids": []})").undone.empty());
  EXPECT_EQ(read(R"({"suppress_tokens": [3, 4], "stop_strings": ["a", "b"]})").suppressed, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(read(R"({"stop_strings": "END"})").stops, (std::vector<std::string>{"END"}));
}

TEST(GenerationJson, WhatCannotBeIsRefusedAllAtOnce) {
  const std::string all = refusal(R"({"eos_token_id": "2", "temperature": -1, "top_p": 1.5, "top_k": 2.5, "do_sample": 1,
      "suppress_tokens": [true], "stop_strings": [""], "unheard_of": 3})");
  for (const char* key :
       {"\"eos_token_id\" is \"2\"", "\"temperature\" is -1", "\"top_p\" is 1.5", "\"top_k\" is 2.5", "\"do_sample\" is 1",
        "\"suppress_tokens\" is [true]", "\"stop_strings\" is [\"\"]", "\"unheard_of\" is 3: this key is not known"})
    EXPECT_NE(all.find(key), std::string::npos) << all;
  EXPECT_NE(refusal("[]").find("no JSON object"), std::string::npos);
  EXPECT_EQ(refusal(R"({"unheard_of": null, "other": false})"), "");
}

}  // namespace
}  // namespace lockstep::arch::huggingface
