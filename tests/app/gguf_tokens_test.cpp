// The special tokens of a GGUF file: its texts and chats are those of the folder that it was made from, and the way back.

#include <gtest/gtest.h>

#include "app/inspect/inspect_facts.h"
#include "app/train_command.h"
#include "data/chat/chat_template.h"

namespace lockstep::app {
namespace {

class GgufTokens : public TrainCommand {
 protected:
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  std::string done(const std::vector<std::string>& words) const {
    const Outcome outcome = lockstep(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out + outcome.err;
  }
  /// A published model with the special tokens "<|endoftext|>", "q", "Z" and "X", of which its files name none.
  void publish() {
    done({"prepare", at("text.txt"), "--tokenizer", "bpe:260", "--out", at("words")});
    done(words("run", {"model.norm=rmsnorm", "model.position=rope", "model.activation=swiglu", "data.dir=" + at("words"),
                       "train.max_iters=2", "train.eval_interval=2"}));
    done({"convert", at("run"), at("model")});
    Json tokenizer = Json::parse(file("model/tokenizer.json"));
    Json::Array added = tokenizer.at("added_tokens").array();
    for (const char* token : {"q", "Z", "X"}) {
      Json one = added.front();
      added.push_back(one.set("id", tokenizer.at("model").at("vocab").at(token)).set("content", token).set("special", true));
    }
    io::replace_file(folder_ / "model/tokenizer.json", tokenizer.set("added_tokens", added).dump());
    end_ = id_of("<|endoftext|>");
    say({{"chat_template", "{{ bos_token }}{% for m in messages %}{{ m.content + eos_token }}{% endfor %}"}});
    set("config.json", {{"bos_token_id", nullptr}, {"eos_token_id", end_}});
  }
  std::int64_t id_of(const std::string& token) const {
    const Json tokenizer = Json::parse(file("model/tokenizer.json"));
    for (const Json& one : tokenizer.at("added_tokens").array()) {
      if (one.at("content").string() == token) return one.at("id").integer();
    }
    return -1;
  }
  void set(const std::string& name, const Json::Object& members) const {
    const auto path = folder_ / "model" / name;
    Json json = Json::parse(io::read_file(path));
    for (const auto& [key, value] : members) json.set(key, value);
    io::replace_file(path, json.dump(2));
  }
  /// Writes tokenizer_config.json with these members alone.
  void say(const Json::Object& members) const { io::replace_file(folder_ / "model/tokenizer_config.json", Json(members).dump()); }
  void begin_with(const std::string& token) const {
    const Json entry(Json::Object{{"id", token}, {"ids", Json::Array{id_of(token)}}, {"tokens", Json::Array{token}}});
    const Json front(Json::Object{{"SpecialToken", Json::Object{{"id", token}, {"type_id", 0}}}});
    set("tokenizer.json",
        {{"post_processor", Json::Object{{"type", "TemplateProcessing"},
                                         {"single", Json::Array{front, Json::parse(R"({"Sequence": {"id": "A"}})")}},
                                         {"pair", Json::Array{}},
                                         {"special_tokens", Json::Object{{token, entry}}}}}});
  }
  /// Writes model.gguf; what is said is returned.
  std::string convert() const {
    std::filesystem::remove(folder_ / "model.gguf");
    return done({"convert", at("model"), at("model.gguf")});
  }
  /// The value of "tokenizer.ggml.KEY" as JSON.
  std::string pair(const std::string& key) const {
    Team team(1);
    const Json pairs = inspect_facts(at("model.gguf"), false, team).at("metadata");
    const Json* value = pairs.find("tokenizer.ggml." + key);
    return value != nullptr ? value->dump() : "null";
  }
  std::string generated(const std::string& model) const {
    const Outcome outcome = lockstep({"generate", at(model), "--prompt", "the", "--tokens", "3000", "--temperature", "100",
                                      "--top-k", "0", "--top-p", "1", "--threads", "1"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  }
  std::string chat(const std::string& model) const {
    const data::Conversation hi{.messages = Json::parse(R"([{"role": "user", "content": "hi"}])").array()};
    return data::ChatTemplate::open(at(model)).write(hi, data::ChatTemplate::Prompt::none, {});
  }

  std::int64_t end_ = 0;
};

// gguf-py, vocab.py: SpecialVocab.
TEST_F(GgufTokens, AreThoseOfTokenizerConfigBeforeConfig) {
  publish();
  const std::int64_t q = id_of("q"), z = id_of("Z"), x = id_of("X");
  const Json chat_template = Json::parse(file("model/tokenizer_config.json")).at("chat_template");
  say({{"bos_token", "q"},
       {"eos_token", Json::Object{{"content", "Z"}}},
       {"pad_token", "X"},
       {"unk_token", "X"},
       {"chat_template", chat_template}});
  EXPECT_EQ(convert().find("warning"), std::string::npos);
  const std::pair<const char*, std::int64_t> expected[] = {{"bos_token_id", q},     {"eos_token_id", z},
                                                           {"eot_token_id", end_},  {"padding_token_id", x},
                                                           {"unknown_token_id", x}, {"eom_token_id", -1}};
  for (const auto& [key, id] : expected) EXPECT_EQ(pair(key), (id >= 0 ? Json(id) : Json()).dump()) << key;
  EXPECT_EQ(chat("model"), "qhiZ");
  EXPECT_EQ(chat("model.gguf"), "qhiZ");
  EXPECT_EQ(generated("model"), generated("model.gguf"));
  done({"convert", at("model.gguf"), at("in")});
  done({"convert", at("in"), at("out")});
  EXPECT_EQ(chat("out"), "qhiZ");
  const Json back = Json::parse(file("out/config.json"));
  EXPECT_EQ(back.at("bos_token_id").dump(), Json(q).dump());
  EXPECT_EQ(back.at("eos_token_id").dump(), Json(Json::Array{z, end_}).dump());
  EXPECT_EQ(back.at("pad_token_id").dump(), Json(x).dump());
  EXPECT_EQ(Json::parse(file("out/tokenizer_config.json")).at("pad_token").string(), "X");
  // What tokenizer_config.json does not name, config.json says.
  say({{"eos_token", "Z"}});
  set("config.json", {{"bos_token_id", x}, {"pad_token_id", q}});
  convert();
  EXPECT_EQ(pair("bos_token_id"), Json(x).dump());
  EXPECT_EQ(pair("padding_token_id"), Json(q).dump());
}

TEST_F(GgufTokens, EndTextsThatTheFolderEnds) {
  publish();
  EXPECT_NE(generated("model").find('Z'), std::string::npos);
  say({{"eos_token", "Z"}});
  convert();
  EXPECT_EQ(generated("model").find('Z'), std::string::npos);
  EXPECT_EQ(generated("model"), generated("model.gguf"));
  set("config.json", {{"eos_token_id", Json::Array{end_, id_of("q"), id_of("X")}}});
  EXPECT_NE(convert().find("warning: a GGUF file names 3 tokens that end texts: \"X\" is left out"), std::string::npos);
}

// transformers 5 asks the template of tokenizer.json alone (tokenization_utils_base.py, _from_pretrained).
TEST_F(GgufTokens, BeginTextsWhereTheTokenizerDoes) {
  publish();
  const auto begins = [&](const Json::Object& said, bool begins, const std::string& warning) {
    say(said);
    const std::string heard = convert();
    EXPECT_EQ(heard.find("add_bos_token") != std::string::npos, !warning.empty()) << heard;
    EXPECT_NE(heard.find(warning), std::string::npos) << heard;
    EXPECT_EQ(pair("add_bos_token"), Json(begins).dump());
    EXPECT_EQ(generated("model"), generated("model.gguf"));
  };
  begins({}, false, "");
  begins({{"add_bos_token", false}, {"bos_token", "q"}}, false, "");
  begins({{"add_bos_token", true}, {"bos_token", "q"}}, false,
         "\"add_bos_token\" is true, and tokenizer.json begins no text with a token: the second counts");
  EXPECT_EQ(pair("bos_token_id"), Json(id_of("q")).dump());
  begins({{"add_bos_token", true}}, false, "begins no text with a token");
  EXPECT_EQ(pair("bos_token_id"), "null");
  begin_with("X");
  begins({{"bos_token", "X"}}, true, "");
  begins({{"add_bos_token", false}, {"bos_token", "X"}}, true,
         "\"add_bos_token\" is false, and tokenizer.json begins texts with \"X\": the second counts");
  EXPECT_EQ(pair("bos_token_id"), Json(id_of("X")).dump());
  say({{"bos_token", "q"}});
  EXPECT_EQ(convert().find("has one for both"), std::string::npos);
  say({{"bos_token", "q"}, {"chat_template", "{{ bos_token }}"}});
  EXPECT_NE(convert().find("begins texts with \"X\", and \"bos_token\" is \"q\": a GGUF file has one for both, \"X\""),
            std::string::npos);
}

// llama_vocab::impl::load: no file can say that there is no such token.
TEST_F(GgufTokens, ThatTheModelLacksAreSaid) {
  publish();
  io::replace_file(folder_ / "model/chat_template.jinja", "{{ bos_token }}{{ eos_token }}");
  say({});
  const std::string unnamed = convert(), names_none = "_token, and tokenizer_config.json names none: in llama.cpp it is ";
  EXPECT_NE(unnamed.find("bos" + names_none + "\""), std::string::npos) << unnamed;
  EXPECT_NE(unnamed.find("eos" + names_none + "\"<|endoftext|>\""), std::string::npos) << unnamed;
  const Outcome endless = lockstep(words("chars", {"model.activation=gelu_tanh", "train.max_iters=2", "train.eval_interval=2"}));
  ASSERT_EQ(endless.code, 0) << endless.err;
  EXPECT_NE(
      done({"convert", at("chars"), at("chars.gguf")}).find("no token ends the model's texts (\"eos_token_id\"), and llama.cpp "),
      std::string::npos);
}

}  // namespace
}  // namespace lockstep::app
