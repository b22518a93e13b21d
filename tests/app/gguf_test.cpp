// GGUF files as a user types them: written from runs and Hugging Face folders, evaluated, read and trained further.

#include <gtest/gtest.h>

#include <cmath>

#include "app/inspect/inspect.h"
#include "app/inspect/inspect_facts.h"
#include "app/train_command.h"
#include "base/error.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> rope = {"model.norm=rmsnorm", "model.position=rope", "model.activation=swiglu"};

class GgufCommand : public TrainCommand {
 protected:
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  void train(const std::string& name, std::vector<std::string> more) const {
    more.insert(more.end(), {"train.max_iters=2", "train.eval_interval=2"});
    const Outcome outcome = lockstep(words(name, more));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  std::string convert(const std::string& from, const std::string& to, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"convert", at(from), at(to)};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = lockstep(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err;
  }
  void refused(const std::vector<std::string>& words, const std::string& said) const {
    const Outcome outcome = lockstep(words);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
  }
  std::string evaluated(const std::string& model) const {
    const Outcome outcome = lockstep({"eval", "--model", at(model), "--data", at("data"), "--json", "--threads", "2"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  }
  double loss(const std::string& model) const { return Json::parse(evaluated(model)).at("loss").number(); }
};

TEST_F(GgufCommand, ARunGoesOutAndIsReadAsItIs) {
  const std::vector<std::vector<std::string>> kinds = {
      {"model.activation=gelu_tanh"},
      {"model.activation=gelu_tanh", "model.bias=true", "model.tied=false"},
      {rope[0], rope[1], rope[2], "model.n_kv_head=1", "model.head_dim=6"},
      {rope[0], rope[1], rope[2], "model.bias=true", "model.qkv_bias=false", "model.tied=false"},
      {rope[0], rope[1], rope[2], "model.qkv_bias=true", "model.rope_scaling=llama3", "model.rope_theta=500000"}};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::string name = "kind" + std::to_string(i);
    train(name, kinds[i]);
    const std::string said = convert(name, name + ".gguf"),
                      kept = "warning: " + at("Modelfile") + " is there and stays as it is\n";
    EXPECT_EQ(said.substr(said.find('\n') + 1), i == 0 ? "" : kept) << "behind that no token ends the texts";
    convert(name + ".gguf", name + "_back");
    convert(name + "_back", name + "_again.GGUF");
    EXPECT_EQ(evaluated(name + ".gguf"), evaluated(name));
    EXPECT_EQ(evaluated(name + "_back"), evaluated(name));
    EXPECT_EQ(evaluated(name + "_again.GGUF"), evaluated(name));
  }
  EXPECT_EQ(file("Modelfile").substr(0, 48), "FROM ./kind0.gguf\nTEMPLATE \"\"\"{{ .Prompt }}\"\"\"\n");
}

TEST_F(GgufCommand, FewerBitsAreNearTheWeights) {
  train("run", {rope[0], rope[1], rope[2], "model.n_embd=64", "model.n_head=2"});
  const double exact = loss("run");
  std::uintmax_t before = 0;
  for (const std::string type : {"q8_0", "bf16", "f32"}) {
    convert("run", type + ".gguf", {"--type", type});
    EXPECT_NEAR(loss(type + ".gguf"), exact, type == "f32" ? 0 : 0.01) << type;
    EXPECT_GT(fs::file_size(folder_ / (type + ".gguf")), before);
    before = fs::file_size(folder_ / (type + ".gguf"));
  }
  convert("q8_0.gguf", "same.gguf");
  EXPECT_TRUE(file("same.gguf") == file("q8_0.gguf")) << "what was rounded once is not rounded again";
  const Outcome ranks = lockstep({"eval", "--layout", "tp=2", "--model", at("q8_0.gguf"), "--data", at("data")});
  EXPECT_EQ(ranks.code, 0) << ranks.err;
}

TEST_F(GgufCommand, TakesTheTokenizerAlong) {
  ASSERT_EQ(lockstep({"prepare", at("text.txt"), "--tokenizer", "bpe:300", "--out", at("words")}).code, 0);
  train("run", {rope[0], rope[1], rope[2], "data.dir=" + at("words")});
  EXPECT_EQ(convert("run", "model.gguf"), "");
  EXPECT_NE(file("Modelfile").find("PARAMETER stop \"<|endoftext|>\"\n"), std::string::npos) << file("Modelfile");
  std::vector<std::string> texts;
  for (const char* model : {"run", "model.gguf"}) {
    const Outcome text =
        lockstep({"generate", "--model", at(model), "--prompt", "the quick", "--tokens", "12", "--threads", "2"});
    ASSERT_EQ(text.code, 0) << text.err;
    texts.push_back(text.out);
  }
  EXPECT_EQ(texts[0], texts[1]);
  // Training goes on from it as from a folder.
  convert("run", "hf");
  for (const char* from : {"hf", "model.gguf"}) {
    const Outcome further =
        lockstep({"train", "data.dir=" + at("words"), "train.init_from=" + at(from), "model.batch_size=2", "train.max_iters=1",
                  "log.dir=" + at(std::string("from_") + from), "train.threads=2", "sample.tokens=0"});
    ASSERT_EQ(further.code, 0) << further.err;
  }
  const std::string weights = "/checkpoints/step_1/model.safetensors";
  EXPECT_TRUE(file("from_model.gguf" + weights) == file("from_hf" + weights));
}

TEST_F(GgufCommand, TakesTheChatTemplateAlong) {
  ASSERT_EQ(lockstep({"prepare", at("text.txt"), "--tokenizer", "bpe:300", "--out", at("words")}).code, 0);
  train("run", {rope[0], rope[1], rope[2], "data.dir=" + at("words")});
  convert("run", "hf");
  const auto pairs = [&](const std::string& name) {
    Team team(1);
    return inspect_facts(at(name), false, team).at("metadata");
  };
  io::replace_file(folder_ / "hf/chat_template.jinja", "{{ bos_token + '<|im_start|>' + messages[0].content }}");
  io::make_folders(folder_ / "hf/additional_chat_templates");
  io::replace_file(folder_ / "hf/additional_chat_templates/tool_use.jinja", "{{ tools }}");
  Json config = Json::parse(file("hf/config.json"));
  config.set("bos_token_id", config.at("eos_token_id"));
  io::replace_file(folder_ / "hf/config.json", config.dump());
  convert("hf", "chat.gguf");
  const std::string key = "tokenizer.chat_template";
  EXPECT_EQ(pairs("chat.gguf").at(key).string(), file("hf/chat_template.jinja"));
  EXPECT_NE(file("Modelfile").find("<|im_start|>{{ .Role }}"), std::string::npos);
  EXPECT_NE(file("Modelfile").find("PARAMETER stop \"<|im_end|>\"\n"), std::string::npos);
  convert("chat.gguf", "in");
  convert("in", "out");
  EXPECT_EQ(file("out/chat_template.jinja"), file("hf/chat_template.jinja"));
  EXPECT_EQ(file("out/additional_chat_templates/tool_use.jinja"), "{{ tools }}");
  fs::remove_all(folder_ / "hf/additional_chat_templates");
  for (const char* token : {"bos_token", "eos_token"})
    EXPECT_EQ(Json::parse(file("out/tokenizer_config.json")).at(token).string(), "<|endoftext|>") << "which the template writes";
  // Others have it in tokenizer_config.json.
  fs::remove(folder_ / "hf/chat_template.jinja");
  fs::remove(folder_ / "Modelfile");
  io::replace_file(folder_ / "hf/tokenizer_config.json",
                   R"({"chat_template": [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]})");
  convert("hf", "list.gguf");
  EXPECT_EQ(pairs("list.gguf").at(key).string(), "b");
  EXPECT_EQ(pairs("list.gguf").at(key + ".tool_use").string(), "a");
  EXPECT_EQ(file("Modelfile").find("TEMPLATE"), std::string::npos) << "Ollama takes the file's own";
}

TEST_F(GgufCommand, TakesEveryTokenThatEndsATextAlong) {
  ASSERT_EQ(lockstep({"prepare", at("text.txt"), "--tokenizer", "bpe:300", "--out", at("words")}).code, 0);
  train("run", {rope[0], rope[1], rope[2], "data.dir=" + at("words")});
  convert("run", "hf");
  Json config = Json::parse(file("hf/config.json"));
  io::replace_file(folder_ / "hf/config.json", config.set("eos_token_id", Json::Array{5, 7}).dump());
  io::replace_file(folder_ / "hf/generation_config.json", R"({"eos_token_id": [7, 9]})");
  io::replace_file(folder_ / "hf/tokenizer_config.json", "{}");
  convert("hf", "ends.gguf");
  convert("ends.gguf", "in");
  convert("in", "out");
  EXPECT_EQ(Json::parse(file("out/config.json")).at("eos_token_id").dump(), "[5,7,9]");
}

// What a text begins with is the tokenizer's to say, where config.json names another token or none.
TEST_F(GgufCommand, BeginsTextsAsTheTokenizerAndSaysWhatIsLost) {
  ASSERT_EQ(lockstep({"prepare", at("text.txt"), "--tokenizer", "bpe:300", "--out", at("words")}).code, 0);
  train("run", {rope[0], rope[1], rope[2], "data.dir=" + at("words")});
  convert("run", "hf");
  Json tokenizer = Json::parse(file("hf/tokenizer.json"));
  Json::Array added = tokenizer.at("added_tokens").array();
  const Json id = added[0].at("id"), name = added[0].at("content");
  tokenizer.set("added_tokens", Json::Array{added[0].set("rstrip", true)});
  const Json entry(Json::Object{{"id", name}, {"ids", Json::Array{id}}, {"tokens", Json::Array{name}}});
  const Json front(Json::Object{{"SpecialToken", Json::Object{{"id", name}, {"type_id", 0}}}});
  tokenizer.set("post_processor", Json::Object{{"type", "TemplateProcessing"},
                                               {"single", Json::Array{front, Json::parse(R"({"Sequence": {"id": "A"}})")}},
                                               {"pair", Json::Array{}},
                                               {"special_tokens", Json::Object{{name.string(), entry}}}});
  io::replace_file(folder_ / "hf/tokenizer.json", tokenizer.dump());
  EXPECT_NE(convert("hf", "model.gguf").find("warning: llama.cpp obeys no lstrip, rstrip"), std::string::npos);
  Team team(1);
  const Json pairs = inspect_facts(at("model.gguf"), false, team).at("metadata");
  EXPECT_TRUE(pairs.at("tokenizer.ggml.add_bos_token").boolean());
  EXPECT_EQ(pairs.at("tokenizer.ggml.bos_token_id").integer(), id.integer());
}

TEST_F(GgufCommand, InspectShowsWhatIsInIt) {
  train("run", {"model.activation=gelu_tanh"});
  convert("run", "model.gguf", {"--type", "f16"});
  Team team(2);
  const Json facts = inspect_facts(at("model.gguf"), false, team);
  EXPECT_EQ(facts.at("kind").string(), "gguf");
  EXPECT_EQ(facts.at("metadata").at("general.architecture").string(), "gpt2");
  EXPECT_NE(facts.at("metadata").at("tokenizer.ggml.tokens").string().find(" elements: "), std::string::npos);
  const std::string text = inspect_text(facts);
  for (const char* part : {"gpt2.context_length", "blk.0.attn_qkv.weight", "F16", "[48, 16]", "position_embd.weight"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_THROW(inspect_facts(at("model.gguf"), true, team), UserError);
}

TEST_F(GgufCommand, SaysWhatLlamaCppDoesOtherwise) {
  train("run", {"model.activation=gelu"});
  EXPECT_NE(convert("run", "model.gguf").find("llama.cpp computes GPT-2 with the approximation by tanh"), std::string::npos);
  train("relu", {"model.activation=relu"});
  refused({"convert", at("relu"), at("relu.gguf")}, "llama.cpp computes GPT-2 with GELU alone");
  train("window", {rope[0], rope[1], rope[2], "model.family=phi3", "model.tied=false", "model.window=5"});
  EXPECT_NE(convert("window", "window.gguf").find("queries see 5 keys, and llama.cpp gives phi3 no window"), std::string::npos);
  EXPECT_EQ(evaluated("window.gguf"), evaluated("window"));
}

TEST_F(GgufCommand, RefusesAndLeavesNothingBehind) {
  train("run", rope);
  refused({"convert", at("run"), at("model.gguf"), "--dtype", "bf16"}, "--dtype bf16: a GGUF file has types of its own");
  refused({"convert", at("run"), at("folder"), "--type", "q8_0"}, "is no GGUF file");
  refused({"convert", at("run"), at("model.gguf"), "--type", "q4_k"}, "'q4_k' is not one of auto|f32|f16|bf16|q8_0");
  EXPECT_FALSE(fs::exists(folder_ / "model.gguf"));
  convert("run", "model.gguf");
  refused({"convert", at("run"), at("model.gguf")}, "there is something of that name already");
  std::string damaged = file("model.gguf");
  const std::string key = "llama.attention.head_count_kv";
  std::string other = damaged;
  other[other.find(key) + key.size() + 4] = 1;  // behind its type
  io::replace_file(folder_ / "other.gguf", other);
  refused({"generate", "--model", at("other.gguf")},
          "the tensor \"blk.0.attn_k.weight\" has the shape [16, 16], but by its keys");
  refused({"generate", "--model", at("other.gguf")}, "take another copy of the file");
  io::replace_file(folder_ / "short.gguf", damaged.substr(0, damaged.size() / 2));
  for (const char* command : {"eval", "generate"}) refused({command, "--model", at("short.gguf")}, "short.gguf: ");
  refused({"convert", at("short.gguf"), at("folder")}, "truncated");
  refused({"train", "data.dir=" + at("data"), "train.init_from=" + at("short.gguf"), "log.dir=" + at("other")}, "truncated");
  EXPECT_FALSE(fs::exists(folder_ / "folder"));
  EXPECT_FALSE(fs::exists(folder_ / "other"));
}

}  // namespace
}  // namespace lockstep::app
