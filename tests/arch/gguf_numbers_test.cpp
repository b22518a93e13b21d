#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "arch/gguf.h"
#include "arch/huggingface/config_json.h"
#include "support/text.h"

namespace lockstep::arch::gguf {
namespace {

Json pairs_of_gemma2() {
  return Json::parse(R"({"general.architecture": "gemma2", "gemma2.context_length": 64, "gemma2.embedding_length": 24,
                         "gemma2.feed_forward_length": 40, "gemma2.block_count": 2, "gemma2.attention.head_count": 6,
                         "gemma2.attention.head_count_kv": 2, "gemma2.attention.layer_norm_rms_epsilon": 1e-6,
                         "gemma2.attention.sliding_window": 30, "gemma2.attn_logit_softcapping": 50.0,
                         "gemma2.final_logit_softcapping": 30.0, "gemma2.rope.freq_base": 10000.0})");
}

std::string said_of(const Json& pairs) {
  try {
    const Json config = config_of(pairs, {.vocabulary = 47, .head = false, .biases = false, .rope_factors = {}}, "it");
    huggingface::model_from_json(config, "it");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}
std::string said_with(const std::string& key, Json value) { return said_of(pairs_of_gemma2().set(key, std::move(value))); }

TEST(GgufNumbers, ThatCannotBeAreRefusedByTheFilesOwnName) {
  EXPECT_EQ(said_of(pairs_of_gemma2()), "no error");
  const Json good = pairs_of_gemma2();
  for (const auto& [key, value] : good.object()) {
    if (!value.is_number()) continue;
    for (const double wrong : {0.0, -1.0, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
      EXPECT_TRUE(contains(said_with(key, wrong), "\"" + key + "\" is ")) << key << ' ' << wrong;
    EXPECT_NE(said_with(key, std::numeric_limits<double>::infinity()), "no error") << key;
  }
  EXPECT_TRUE(contains(said_with("gemma2.rope.freq_base", 0), "\"gemma2.rope.freq_base\" is 0, but must be above 0"));
}

// In llama.cpp's gemma2.cpp a base of 0 counts, and a pattern of 0 gives every layer the window.
TEST(GgufNumbers, OfZeroThatSayMuchAreRefused) {
  for (const char* key : {"gemma2.rope.freq_base_swa", "gemma2.attention.sliding_window_pattern"})
    EXPECT_TRUE(contains(said_with(key, 0), std::string("\"") + key + "\" is 0: this key is not known"));
  EXPECT_EQ(said_with("gemma2.expert_count", 0), "no error");
}

TEST(GgufNumbers, OfYarnAreRefusedByTheFilesOwnName) {
  const auto yarn = [](const char* key, double value) {
    const Json gemma = pairs_of_gemma2();
    Json pairs(Json::Object{});
    for (const auto& [name, old] : gemma.object()) {
      if (name.find("softcapping") == name.npos && name.find("sliding") == name.npos)
        pairs.set(name.starts_with("gemma2.") ? "llama." + name.substr(7) : name, old);
    }
    pairs.set("general.architecture", "llama").set("llama.rope.scaling.type", "yarn").set("llama.rope.scaling.factor", 4);
    return said_of(pairs.set(key, value));
  };
  EXPECT_EQ(yarn("llama.rope.scaling.original_context_length", 16), "no error");
  for (const double wrong : {0.0, -4.0, std::numeric_limits<double>::quiet_NaN()}) {
    for (const char* key : {"llama.rope.scaling.original_context_length", "llama.rope.scaling.attn_factor"})
      EXPECT_TRUE(contains(yarn(key, wrong), std::string("\"") + key + "\" is ")) << key << ' ' << wrong;
  }
}

}  // namespace
}  // namespace lockstep::arch::gguf
