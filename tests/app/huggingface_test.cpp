// Published models as a user types them: written from, evaluated, trained further, converted there and back.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "app/train_command.h"
#include "base/json.h"
#include "io/safetensors.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

const std::vector<const char*> models = {"gemma2", "gemma3", "gpt2",  "gpt2_untied", "llama",       "llama_tied",
                                         "phi3",   "qwen2",  "qwen3", "rasbt",       "rasbt_fused", "smollm3"};

fs::path golden(const std::string& name) { return fs::path("tests/golden/data/huggingface") / name; }

/// Type, shape and bytes by name, of all safetensors files of a folder.
struct Stored {
  std::string type;
  std::vector<std::int64_t> shape;
  std::string bytes;
  bool operator==(const Stored&) const = default;
};
using Tensors = std::map<std::string, Stored>;
Tensors tensors_of(const fs::path& folder) {
  Tensors all;
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().extension() != ".safetensors") continue;
    const io::MappedFile mapped(file.path());
    const std::string_view content(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
    const io::SafetensorsHeader header = io::parse_safetensors(mapped.bytes(), mapped.size(), "file");
    for (const io::SafetensorsEntry& entry : header.entries)
      all[entry.name] = {entry.dtype, entry.shape, std::string(content.substr(entry.offset, entry.bytes))};
  }
  return all;
}

/// A tokenizer.json of the 256 bytes and two merges, with an end of text.
std::string tokenizer_json() {
  Json::Object vocabulary;
  std::int64_t id = 0;
  const auto add = [&](const std::string& token) { vocabulary.emplace_back(token, id++); };
  const auto utf8 = [](int c) {
    return c < 0x80 ? std::string(1, static_cast<char>(c))
                    : std::string{static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
  };
  int beyond = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printed = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    add(utf8(printed ? byte : beyond++));
  }
  add("th");
  add("the");
  const Json added(Json::Object{{"id", id},
                                {"content", "<|endoftext|>"},
                                {"special", true},
                                {"single_word", false},
                                {"lstrip", false},
                                {"rstrip", false},
                                {"normalized", false}});
  const Json byte_level(
      Json::Object{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}});
  return Json(Json::Object{
                  {"version", "1.0"},
                  {"added_tokens", Json::Array{added}},
                  {"normalizer", nullptr},
                  {"pre_tokenizer", byte_level},
                  {"decoder", byte_level},
                  {"model", Json::Object{{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::Array{"t h", "th e"}}}}})
      .dump();
}

class HuggingFace : public TrainCommand {
 protected:
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  void refused(const std::vector<std::string>& words, const std::string& said) const {
    const Outcome outcome = lockstep(words);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
  }
  /// A run of a tiny model, saved after two steps.
  void train(const std::string& name, std::vector<std::string> more) const {
    more.insert(more.end(), {"train.max_iters=2", "train.eval_interval=2"});
    const Outcome outcome = lockstep(words(name, more));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
};

TEST_F(HuggingFace, ConvertsThereAndBackBitForBit) {
  for (const std::string name : models) {
    const Outcome there = lockstep({"convert", golden(name), at(name)});
    ASSERT_EQ(there.code, 0) << there.err;
    EXPECT_NE(there.out.find(" generate "), std::string::npos) << there.out;
    const Tensors expected = tensors_of(golden(name));
    const std::string type = expected.begin()->second.type;
    const std::string dtype = type == "F32" ? "fp32" : type == "F16" ? "fp16" : "bf16";
    if (dtype == "bf16") {  // a checkpoint of bf16 holds it, too
      ASSERT_EQ(lockstep({"convert", golden(name), at(name + "_half"), "--dtype", "bf16"}).code, 0);
      ASSERT_EQ(lockstep({"convert", at(name + "_half"), at(name + "_half_back")}).code, 0);
    }
    const Outcome back = lockstep({"convert", at(name), at(name + "_back"), "--dtype", dtype});
    ASSERT_EQ(back.code, 0) << back.err;
    if (name.starts_with("rasbt")) continue;  // they come back as transformers' GPT-2
    const Tensors found = tensors_of(folder_ / (name + "_back"));
    std::size_t compared = 0;
    for (const auto& [tensor, content] : expected) {
      if (tensor.ends_with(".attn.bias") || tensor.ends_with(".masked_bias")) continue;
      if (tensor == "lm_head.weight" && !found.contains(tensor)) continue;  // tied, and stored all the same
      const std::string with_prefix = found.contains(tensor) ? tensor : "transformer." + tensor;
      ASSERT_TRUE(found.contains(with_prefix)) << name << ": " << tensor;
      EXPECT_TRUE(found.at(with_prefix) == content) << name << ": " << tensor;
      ++compared;
    }
    EXPECT_EQ(compared, found.size()) << name;
    if (dtype == "bf16") {
      EXPECT_TRUE(tensors_of(folder_ / (name + "_half_back")) == found) << name;
    }
  }
}

TEST_F(HuggingFace, EvaluatesAFolderAsItDoesItsCheckpoint) {
  std::string ids;
  for (int i = 0; i < 300; ++i) ids += {static_cast<char>(i * i % 47), '\0'};
  io::replace_file(folder_ / "ids.bin", ids);
  for (const std::string name : models) {
    ASSERT_EQ(lockstep({"convert", golden(name), at(name)}).code, 0);
    ASSERT_EQ(lockstep({"convert", at(name), at(name + "_back"), "--shard-size", "1"}).code, 0);
    std::vector<std::string> seen;
    for (const std::string& model : {golden(name).string(), at(name), at(name + "_back")}) {
      const Outcome outcome =
          lockstep({"eval", "--model", model, "--tokens", at("ids.bin"), "--length", "9", "--json", "--threads", "2"});
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      seen.push_back(outcome.out);
    }
    EXPECT_EQ(seen[0], seen[1]) << name;
    EXPECT_EQ(seen[0], seen[2]) << name;
  }
}

// A model of ours goes out whatever its biases and types are, and comes back with its logits.
TEST_F(HuggingFace, WritesEveryModelThatAFamilyHas) {
  const std::vector<std::vector<std::string>> kinds = {
      {"model.bias=false"},
      {"model.bias=true", "model.qkv_bias=false", "model.tied=false", "model.activation=gelu_tanh"},
      {"model.activation=relu", "model.ffn_width=40"},
      {"model.norm=rmsnorm", "model.position=rope", "model.activation=swiglu", "model.n_kv_head=1", "model.head_dim=6"},
      {"model.norm=rmsnorm", "model.position=rope", "model.activation=swiglu", "model.bias=true", "model.qkv_bias=false"},
      {"model.norm=rmsnorm", "model.position=rope", "model.activation=swiglu", "model.qkv_bias=true", "model.tied=false",
       "model.rope_scaling=llama3", "model.rope_theta=500000"},
      {"model.norm=rmsnorm", "model.position=rope", "model.activation=swiglu", "model.qk_norm=true", "model.window=5",
       "model.global_every=2", "model.rope_scaling=yarn", "model.rope_original_block_size=4"},
      {"model.norm=rmsnorm", "model.position=rope", "model.activation=swiglu", "model.window=6"},
      {"model.norm=rmsnorm", "model.position=rope", "model.activation=swiglu", "model.rope_skip_every=2",
       "model.rope_scaling=dynamic"},
      {"model.norm=rmsnorm", "model.position=rope", "model.activation=swiglu", "model.family=phi3", "model.tied=false"},
      {"model.norm=rmsnorm", "model.position=rope", "model.activation=geglu", "model.norm_unit_offset=true",
       "model.embedding_scale=4"},
      {"model.norm=rmsnorm", "model.position=rope", "model.activation=geglu", "model.norm_unit_offset=true",
       "model.embedding_scale=4", "model.post_norm=true", "model.window=5", "model.global_every=2", "model.attention_softcap=3",
       "model.logit_softcap=2"},
      {"model.norm=rmsnorm", "model.position=rope", "model.activation=geglu", "model.norm_unit_offset=true",
       "model.embedding_scale=4", "model.post_norm=true", "model.qk_norm=true", "model.window=5", "model.rope_local_theta=50",
       "model.attention_scale=0.2"}};
  const std::vector<const char*> types = {"gpt2",    "gpt2",    "gpt2", "llama", "llama",  "qwen2",      "qwen3",
                                          "mistral", "smollm3", "phi3", "gemma", "gemma2", "gemma3_text"};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::string name = "kind" + std::to_string(i);
    train(name, kinds[i]);
    const Outcome out = lockstep({"convert", at(name), at(name + "_hf")});
    ASSERT_EQ(out.code, 0) << out.err;
    EXPECT_EQ(out.err, "");
    std::vector<std::string> seen;
    for (const std::string& model : {at(name), at(name + "_hf")}) {
      const Outcome outcome = lockstep({"eval", "--model", model, "--data", at("data"), "--json", "--threads", "2"});
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      seen.push_back(outcome.out);
    }
    EXPECT_EQ(seen[0], seen[1]) << name;
    EXPECT_EQ(Json::parse(file(name + "_hf/config.json")).at("model_type").string(), types[i]) << name;
  }
  const Json config = Json::parse(file("kind5_hf/config.json"));
  EXPECT_EQ(config.at("rope_scaling").at("rope_type").string(), "llama3");
  EXPECT_EQ(config.at("torch_dtype").string(), "float32");
  EXPECT_EQ(config.at("rms_norm_eps").number(), 1e-5);
  EXPECT_TRUE(config.at("eos_token_id").is_null());
}

TEST_F(HuggingFace, TakesTheTokenizerAlong) {
  io::replace_file(folder_ / "tokenizer.json", tokenizer_json());
  ASSERT_EQ(lockstep({"prepare", at("text.txt"), "--tokenizer", "hf:" + at("tokenizer.json"), "--out", at("words")}).code, 0);
  train("run", {"data.dir=" + at("words")});
  const Outcome out = lockstep({"convert", at("run"), at("hf")});
  ASSERT_EQ(out.code, 0) << out.err;
  EXPECT_EQ(Json::parse(file("hf/tokenizer.json")).dump(), Json::parse(tokenizer_json()).dump());
  EXPECT_EQ(Json::parse(file("hf/config.json")).at("eos_token_id").integer(), 258);
  EXPECT_EQ(Json::parse(file("hf/tokenizer_config.json")).at("eos_token").string(), "<|endoftext|>");
  ASSERT_EQ(lockstep({"convert", at("hf"), at("again")}).code, 0);
  std::vector<std::string> texts;
  for (const char* model : {"run", "hf", "again"}) {
    const Outcome text = lockstep({"generate", "--model", at(model), "--prompt", "the", "--tokens", "12", "--threads", "2"});
    ASSERT_EQ(text.code, 0) << text.err;
    texts.push_back(text.out);
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[0], texts[2]);
  std::vector<std::string> any = {"generate", "--model", at("hf"), "--prompt", "the", "--tokens", "2000", "--top-k", "0"};
  any.insert(any.end(), {"--temperature", "100", "--threads", "1"});
  const Outcome ended = lockstep(any);
  any.emplace_back("--ignore-end");
  const Outcome endless = lockstep(any);
  EXPECT_EQ(ended.out.find("<|endoftext|>"), std::string::npos);
  EXPECT_EQ(endless.out.find("<|endoftext|>"), ended.out.size() - 1) << "it ends there, with a line";
  fs::remove(folder_ / "hf/tokenizer.json");
  refused({"generate", "--model", at("hf"), "--prompt", "the"}, "has no tokenizer.json, so it cannot read text");
  io::replace_file(folder_ / "hf/tokenizer.json", "{\"model\": {\"type\": \"WordPiece\"}}");
  refused({"generate", "--model", at("hf"), "--prompt", "the"}, "WordPiece");
}

// Models with tokenizers of characters or bytes: what transformers reads is read here, too.
TEST_F(HuggingFace, GivesPlainTokenizersAForm) {
  for (const std::string name : {"char", "byte"}) {
    ASSERT_EQ(lockstep({"prepare", at("text.txt"), "--tokenizer", name, "--out", at("data_" + name)}).code, 0);
    train(name, {"data.dir=" + at("data_" + name)});
    const Outcome out = lockstep({"convert", at(name), at(name + "_hf")});
    ASSERT_EQ(out.code, 0) << out.err;
    EXPECT_EQ(out.err, "");
    EXPECT_EQ(Json::parse(file(name + "_hf/tokenizer_config.json")).at("tokenizer_class").string(), "PreTrainedTokenizerFast");
    ASSERT_EQ(lockstep({"convert", at(name + "_hf"), at(name + "_again")}).code, 0);
    const std::string stored = file(name + "_again/manifest.json");
    EXPECT_EQ(Json::parse(stored).at("run").at("tokenizer").at("name").string(), name);
    std::vector<std::string> texts;
    for (const std::string& model : {name, name + "_hf", name + "_again"}) {
      const Outcome text = lockstep({"generate", "--model", at(model), "--prompt", "the", "--tokens", "12", "--threads", "2"});
      ASSERT_EQ(text.code, 0) << text.err;
      texts.push_back(text.out);
    }
    EXPECT_EQ(texts[0], texts[1]);
    EXPECT_EQ(texts[0], texts[2]);
    const std::string again = "hf:" + at(name + "_hf/tokenizer.json");
    ASSERT_EQ(lockstep({"prepare", at("text.txt"), "--tokenizer", again, "--out", at("again_" + name)}).code, 0);
    EXPECT_EQ(file("again_" + name + "/train.bin"), file("data_" + name + "/train.bin"));
    const Outcome further =
        lockstep({"train", "data.dir=" + at("again_" + name), "train.init_from=" + at(name + "_hf"), "model.batch_size=2",
                  "train.max_iters=1", "log.dir=" + at("further_" + name), "train.threads=2"});
    EXPECT_EQ(further.code, 0) << further.err;
  }
}

TEST_F(HuggingFace, TrainingGoesOnFromPublishedWeights) {
  train("first", {"model.bias=true", "model.n_layer=1", "model.ffn_width=40"});
  ASSERT_EQ(lockstep({"convert", at("first"), at("hf")}).code, 0);
  std::vector<std::string> from = {"train",
                                   "data.dir=" + at("data"),
                                   "train.init_from=" + at("hf"),
                                   "model.batch_size=4",
                                   "train.max_iters=2",
                                   "train.eval_interval=2",
                                   "train.eval_iters=2",
                                   "train.warmup_iters=0",
                                   "train.threads=2",
                                   "sample.tokens=5"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = from;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  // The same step from the same weights, whether they come from the checkpoint or from the folder made of it.
  ASSERT_EQ(lockstep(with({"log.dir=" + at("a")})).code, 0);
  ASSERT_EQ(lockstep(words("b", {"train.init_from=" + at("first"), "model.bias=true", "model.n_layer=1", "model.ffn_width=40",
                                 "train.max_iters=2", "train.eval_interval=2", "train.warmup_iters=0", "sample.tokens=5"}))
                .code,
            0);
  const char* weights = "/checkpoints/step_2/model.safetensors";
  EXPECT_TRUE(file(std::string("a") + weights) == file(std::string("b") + weights));
  // It resumes as any run does, and may read less context.
  ASSERT_EQ(lockstep({"train", "log.dir=" + at("a"), "train.init_from=resume", "train.max_iters=3"}).code, 0);
  const Outcome cropped = lockstep(with({"log.dir=" + at("cropped"), "model.block_size=5", "log.style=wordplay"}));
  ASSERT_EQ(cropped.code, 0) << cropped.err;
  EXPECT_NE(cropped.out.find("(wpe): Embedding(5, 16)"), std::string::npos);
  std::vector<std::string> shared = with({"log.dir=" + at("shared")});
  shared.insert(shared.begin() + 1, {"--ranks", "2"});
  EXPECT_EQ(lockstep(shared).code, 0);
  EXPECT_EQ(lockstep(with({"--dry-run"})).code, 0);

  refused(with({"log.dir=" + at("c"), "model.n_layer=2"}), "model.n_layer = 2: the model in " + at("hf") + " has 1");
  refused(with({"log.dir=" + at("c"), "model=gpt2"}), "model.n_embd = 768");
  refused(with({"log.dir=" + at("c"), "model.block_size=13"}), "has learned 12 positions");
  EXPECT_FALSE(fs::exists(folder_ / "c"));
  io::replace_file(folder_ / "hf/config.json", "{");
  refused(with({"log.dir=" + at("c")}), "config.json");
}

// Rotary positions: shorter windows teach the model nothing about how far it reads.
TEST_F(HuggingFace, AModelReadsAsFarAsBeforeBehindShorterWindows) {
  train("first", {"model.norm=rmsnorm", "model.position=rope", "model.activation=swiglu", "model.block_size=24"});
  ASSERT_EQ(lockstep({"convert", at("first"), at("hf")}).code, 0);
  const auto positions = [&](const std::string& from, const std::string& to) {
    const Outcome converted = lockstep({"convert", at(from), at(to)});
    EXPECT_EQ(converted.code, 0) << converted.err;
    return Json::parse(file(to + "/config.json")).at("max_position_embeddings").integer();
  };
  const auto tune = [&](const std::string& run, const std::string& from, const std::string& windows) {
    EXPECT_EQ(lockstep({"train", at("data"), "train.init_from=" + at(from), "log.dir=" + at(run), "model.block_size=" + windows,
                        "model.batch_size=4", "train.max_iters=2", "train.eval_interval=2", "train.eval_iters=1",
                        "train.warmup_iters=0", "train.threads=1", "sample.tokens=0"})
                  .code,
              0);
  };
  tune("short", "hf", "8");
  EXPECT_EQ(positions("short", "short_back"), 24);
  tune("long", "hf", "30");
  EXPECT_EQ(positions("long", "long_back"), 30);
  tune("again", "short_back", "6");
  EXPECT_EQ(positions("again", "again_back"), 24);
  ASSERT_EQ(lockstep({"convert", at("again"), at("again.gguf")}).code, 0);
  ASSERT_EQ(lockstep({"convert", at("again.gguf"), at("from_gguf")}).code, 0);
  EXPECT_EQ(positions("from_gguf", "gguf_back"), 24);
}

TEST_F(HuggingFace, RefusesAndLeavesNothingBehind) {
  ASSERT_EQ(lockstep({"convert", golden("llama"), at("model")}).code, 0);
  refused({"convert", golden("llama"), at("model")}, "there is something of that name already");
  refused({"convert", at("model"), at("data")}, "there is something of that name already");
  refused({"convert", golden("llama"), at("other"), "--dtype", "fp16"}, "--dtype fp16: a checkpoint is fp32 or bf16");
  refused({"convert", golden("llama"), at("other"), "--shard-size", "0"}, "--shard-size 0");
  refused({"convert", golden("llama"), at("other"), "--shard-size", "1"}, "becomes a checkpoint, which has files of its own");
  refused({"convert", golden("llama"), at("other.gguf"), "--shard-size", "1"}, "--shard-size 1: a GGUF file is written whole");
  refused({"convert", golden("llama"), at("other"), "--merge"}, "has no adapters of a run");
  refused({"convert", golden("llama"), at("other"), "--checkpoint", "last"},
          "--checkpoint last: " + golden("llama").string() + " is no run");
  refused({"convert", golden("llama"), at("other"), "--threads", "-1"}, "--threads -1");
  refused({"convert", at("nowhere"), at("other")}, "there is no such folder");
  refused({"convert", golden("llama")}, "TO is missing");
  fs::copy(golden("llama"), at("unreadable"));
  fs::create_directory(folder_ / "unreadable/tokenizer.json");
  refused({"convert", at("unreadable"), at("other")}, "cannot read " + at("unreadable") + "/tokenizer.json");
  refused({"eval", "--model", golden("llama"), "--json"}, "does not say what it was trained on");
  // The prepared text has more characters than the model has tokens.
  io::replace_file(folder_ / "many.txt", tokenizer_json());
  ASSERT_EQ(lockstep({"prepare", at("many.txt"), "--tokenizer", "byte", "--out", at("many")}).code, 0);
  refused({"eval", "--model", golden("llama"), "--data", at("many"), "--length", "9"},
          "a vocabulary of 256, the model one of 47");
  refused({"train", "data.dir=" + at("many"), "log.dir=" + at("other"), "train.init_from=" + golden("llama").string()},
          "a vocabulary of 256, the model one of 47");
  // A model that no family has, weights that fp16 cannot hold, a damaged tensor.
  train("mixed", {"model.norm=rmsnorm"});
  refused({"convert", at("mixed"), at("other")}, "RMSNorm, learned positions, gelu");
  fs::copy(golden("llama"), folder_ / "large");
  std::string content = file("large/model.safetensors");
  const float value = 70000;
  std::memcpy(content.data() + content.size() - sizeof(value), &value, sizeof(value));
  io::replace_file(folder_ / "large/model.safetensors", content);
  ASSERT_EQ(lockstep({"convert", at("large"), at("wide")}).code, 0);
  refused({"convert", at("wide"), at("other"), "--dtype", "fp16"}, "which fp16 cannot hold");
  content = file("wide/model.safetensors");
  content[content.size() - 1] ^= 1;
  io::replace_file(folder_ / "wide/model.safetensors", content);
  refused({"convert", at("wide"), at("other")}, "does not match its checksum");
  EXPECT_FALSE(fs::exists(folder_ / "other"));
  for (const auto& entry : fs::directory_iterator(folder_.path())) EXPECT_NE(entry.path().filename().string()[0], '.');
}

}  // namespace
}  // namespace lockstep::app
