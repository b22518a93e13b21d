// What ends a text, as users meet it: tokens of a published model, documents that were taught, texts that they name.

#include <gtest/gtest.h>

#include "app/train_command.h"
#include "checkpoint/manifest.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

class TextEnds : public TrainCommand {
 protected:
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  void done(const std::vector<std::string>& words) const {
    const Outcome outcome = lockstep(words);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  /// A published model without an end of texts, as a folder; its tokens are bytes and some pairs.
  void publish() {
    done({"prepare", at("text.txt"), "--tokenizer", "bpe:260", "--out", at("words")});
    done(words("run", {"data.dir=" + at("words"), "train.max_iters=2", "train.eval_interval=2"}));
    done({"convert", at("run"), at("model")});
    fs::remove(folder_ / "model/tokenizer_config.json");
    set("config.json", "eos_token_id", nullptr);
    std::string tokenizer = file("model/tokenizer.json");  // its own end is one of the names that are known
    for (const std::string end = "<|endoftext|>"; tokenizer.find(end) != std::string::npos;)
      tokenizer.replace(tokenizer.find(end), end.size(), "<|im_end|>");
    io::replace_file(folder_ / "model/tokenizer.json", tokenizer);
  }
  void set(const std::string& name, const std::string& key, const Json& value) {
    const fs::path path = folder_ / "model" / name;
    Json json = io::exists(path) ? Json::parse(io::read_file(path)) : Json(Json::Object{});
    io::replace_file(path, json.set(key, value).dump(2));
  }
  std::int64_t id_of(const std::string& token) const {
    return Json::parse(file("model/tokenizer.json")).at("model").at("vocab").at(token).integer();
  }
  /// A long text of tokens that are all about as likely.
  Outcome wild(const std::string& model, std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {"generate", "--model", at(model), "--prompt", "the", "--threads", "1"};
    for (const char* word : {"--tokens", "3000", "--temperature", "100", "--top-k", "0", "--top-p", "1"}) all.emplace_back(word);
    all.insert(all.end(), more.begin(), more.end());
    return lockstep(all);
  }
  /// `model` writes what it does with --ignore-end, up to `end`, which is in none of it.
  void expect_end(const std::string& model, const std::string& end, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> endless_words = more;
    endless_words.emplace_back("--ignore-end");
    const Outcome ended = wild(model, more), endless = wild(model, endless_words);
    ASSERT_EQ(ended.code, 0) << ended.err;
    const std::string text = ended.out.substr(0, ended.out.size() - 1);  // a line feed is behind each text
    ASSERT_TRUE(endless.out.starts_with(text)) << text;
    EXPECT_TRUE(endless.out.substr(text.size()).starts_with(end)) << text.size();
    EXPECT_GT(endless.out.size(), text.size() + end.size() + 1);
  }
};

TEST_F(TextEnds, TokensOfConfigAndGenerationConfigEndOne) {
  publish();
  const std::int64_t q = id_of("q"), z = id_of("Z");
  EXPECT_EQ(wild("model").out, wild("model", {"--ignore-end"}).out) << "nothing ends it";
  set("config.json", "eos_token_id", q);
  expect_end("model", "q");
  set("config.json", "eos_token_id", Json::Array{q});
  expect_end("model", "q");
  set("config.json", "eos_token_id", nullptr);
  set("generation_config.json", "eos_token_id", q);
  expect_end("model", "q");
  set("generation_config.json", "eos_token_id", Json::Array{z, q});
  const Outcome both = wild("model");
  EXPECT_EQ(both.out.find_first_of("qZ", 3), std::string::npos) << both.out;
  expect_end("model", wild("model", {"--ignore-end"}).out.substr(both.out.size() - 1, 1), {"--ranks", "2", "--samples", "1"});
  set("generation_config.json", "eos_token_id", Json::Array{9999, -1});
  const Outcome strange = wild("model");
  EXPECT_NE(strange.err.find("\"eos_token_id\" 9999, -1: no token of a vocabulary of 260"), std::string::npos) << strange.err;
  set("generation_config.json", "eos_token_id", "q");
  EXPECT_EQ(wild("model").code, 2);
  EXPECT_NE(wild("model").err.find("\"eos_token_id\" is \"q\""), std::string::npos);
}

TEST_F(TextEnds, ThereAndBackKeepsWhatWasPublished) {
  publish();
  const Json ends = Json::Array{id_of("q"), id_of("Z")};
  set("config.json", "eos_token_id", ends);
  set("config.json", "pad_token_id", 5);
  set("config.json", "bos_token_id", 7);
  set("generation_config.json", "eos_token_id", Json::Array{id_of("Z"), id_of("k")});
  set("generation_config.json", "temperature", 0.7);
  set("tokenizer_config.json", "eos_token", "Z");
  set("tokenizer_config.json", "chat_template", "{{ messages }}");
  const char* const for_tools = "additional_chat_templates/tool_use.jinja";
  fs::create_directory(folder_ / "model/additional_chat_templates");
  io::replace_file(folder_ / "model" / for_tools, "{{ tools }}");
  done({"convert", at("model"), at("there")});
  // Further training, and a resume, keep it too.
  done({"prepare", at("text.txt"), "--tokenizer", "hf:" + at("model/tokenizer.json"), "--out", at("mine")});
  const auto tuned = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {"train", "log.dir=" + at("tuned"), "train.threads=1", "train.eval_iters=1",
                                    "sample.tokens=0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  done(tuned({"data.dir=" + at("mine"), "train.init_from=" + at("model"), "model.batch_size=2", "train.max_iters=1",
              "train.warmup_iters=0"}));
  done(tuned({"train.init_from=resume", "train.max_iters=2"}));
  done({"train", "data.dir=" + at("mine"), "log.dir=" + at("again"), "train.init_from=" + at("there"), "model.batch_size=2",
        "train.max_iters=1", "train.eval_iters=1", "train.warmup_iters=0", "train.threads=1", "sample.tokens=0"});
  for (const std::string from : {"there", "tuned", "again"}) {
    done({"convert", at(from), at(from + "_back")});
    for (const char* name : {"generation_config.json", "tokenizer_config.json", for_tools})
      EXPECT_EQ(file(from + "_back/" + name), file(std::string("model/") + name)) << from;
    const Json config = Json::parse(file(from + "_back/config.json"));
    EXPECT_EQ(config.at("eos_token_id").dump(), ends.dump()) << from;
    EXPECT_EQ(config.at("pad_token_id").integer(), 5) << from;
    EXPECT_EQ(config.at("bos_token_id").integer(), 7) << from;
    const Outcome text = wild(from);
    EXPECT_EQ(text.out.find_first_of("qZk", 3), std::string::npos) << text.out;
  }
  io::replace_file(folder_ / "model/tokenizer_config.json", "\xFF");
  EXPECT_EQ(wild("model").code, 2) << "it may have tokens";
  EXPECT_NE(lockstep({"convert", at("model"), at("bad")}).err.find("tokenizer_config.json: byte 0 is not valid UTF-8"),
            std::string::npos);
  fs::remove(folder_ / "model/tokenizer_config.json");
  io::replace_file(folder_ / "model/generation_config.json", "{");
  EXPECT_EQ(lockstep({"convert", at("model"), at("bad")}).code, 2);
  EXPECT_FALSE(fs::exists(folder_ / "bad"));
}

// What is taught as the end of an answer ends one later, in every form of the model.
TEST_F(TextEnds, ConversationsTeachTheEndOfATurnAndTheirTemplate) {
  publish();
  const std::int64_t q = id_of("q");
  Json tokenizer = Json::parse(file("model/tokenizer.json"));
  Json::Array added = tokenizer.at("added_tokens").array();
  Json mark = added.front();
  mark.set("id", q);
  mark.set("content", "q");
  added.push_back(std::move(mark));
  const std::int64_t z = id_of("Z");
  io::replace_file(folder_ / "model/tokenizer.json", tokenizer.set("added_tokens", std::move(added)).dump());
  set("tokenizer_config.json", "chat_template", "{{ messages }}");
  set("tokenizer_config.json", "bos_token", "q");
  set("generation_config.json", "eos_token_id", z);
  set("generation_config.json", "suppress_tokens", Json::Array{z, 10});  // a line feed ends documents
  const std::string chat_template =
      "{% for m in messages %}{{ m.content }}{{ 'q' if m.role == 'assistant' else ':' }}{% endfor %}";
  io::replace_file(folder_ / "t.jinja", chat_template);
  std::string rows;
  for (int i = 0; i < 60; ++i)
    rows += R"({"messages": [{"role": "user", "content": "you"}, {"role": "assistant", "content": "me"}]})"
            "\n";
  io::replace_file(folder_ / "rows.jsonl", rows);
  done({"prepare", at("rows.jsonl"), "--tokenizer", "hf:" + at("model"), "--chat-template", at("t.jinja"), "--out", at("chats")});
  const Json chats = Json::parse(file("chats/tokens.json")).at("chats");
  EXPECT_EQ(chats.at("template").string(), chat_template);
  EXPECT_EQ(chats.at("end").integer(), q);
  done({"train", at("chats"), "log.dir=" + at("tuned"), "train.init_from=" + at("model"), "model.batch_size=2",
        "train.max_iters=1", "train.eval_iters=1", "train.warmup_iters=0", "train.threads=1", "sample.tokens=0"});
  expect_end("tuned", "q");
  done({"convert", at("tuned"), at("out")});
  EXPECT_EQ(file("out/chat_template.jinja"), chat_template);
  EXPECT_EQ(Json::parse(file("out/generation_config.json")).at("eos_token_id").dump(), Json(Json::Array{z, 10, q}).dump());
  expect_end("out", "q");
  done({"convert", at("out"), at("there")});
  expect_end("there", "q");
}

// The names of files come from the checkpoint, which may be a stranger's.
TEST_F(TextEnds, NoFileIsWrittenOutsideOfTheFolder) {
  publish();
  set("generation_config.json", "temperature", 0.7);
  done({"convert", at("model"), at("there")});
  checkpoint::Manifest manifest = checkpoint::parse_manifest(file("there/manifest.json"), "there");
  Json published = manifest.run.at("huggingface");
  published.set("files", Json::Object{{"generation_config.json", "{}"}, {"../escaped.json", "{}"}});
  manifest.run.set("huggingface", published);
  io::replace_file(folder_ / "there/manifest.json", checkpoint::manifest_text(manifest));
  done({"convert", at("there"), at("back")});
  EXPECT_TRUE(fs::exists(folder_ / "back/generation_config.json"));
  EXPECT_FALSE(fs::exists(folder_ / "escaped.json"));
}

TEST_F(TextEnds, SamplingIsThePublishersUnlessTheUserSays) {
  publish();
  const std::vector<std::string> plain = {"generate", "--model", at("model"), "--prompt", "the",
                                          "--tokens", "50",      "--threads", "1"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = plain;
    all.insert(all.end(), more.begin(), more.end());
    return lockstep(all);
  };
  const std::string usual = with({}).out, greedy = with({"--temperature", "0"}).out;
  const std::string published = with({"--temperature", "9", "--top-k", "50", "--top-p", "0.9"}).out;
  EXPECT_NE(usual, greedy);
  EXPECT_NE(usual, published);
  set("generation_config.json", "do_sample", true);
  set("generation_config.json", "temperature", 9.0);
  set("generation_config.json", "top_p", 0.9);
  const Outcome taken = with({});
  EXPECT_EQ(taken.out, published);
  EXPECT_NE(taken.err.find("generation_config.json (else config.json) says --temperature 9 --top-k 50 --top-p 0.9: taken"),
            std::string::npos)
      << taken.err;
  EXPECT_EQ(with({"--temperature", "0"}).out, greedy);
  EXPECT_EQ(with({"--temperature", "0.8", "--top-k", "16", "--top-p", "1"}).out, usual);
  EXPECT_EQ(with({"--temperature", "0.8", "--top-k", "16", "--top-p", "1"}).err.find("generation_config"), std::string::npos);
  set("generation_config.json", "repetition_penalty", 1.2);
  set("generation_config.json", "suppress_tokens", Json::Array{id_of("e")});
  EXPECT_NE(with({}).err.find("repetition_penalty is 1.2, which is not done here"), std::string::npos) << with({}).err;
  set("generation_config.json", "stop_strings", "o");
  const Outcome stopped = wild("model");
  EXPECT_EQ(stopped.out.find('o', 3), std::string::npos) << stopped.out;
  set("generation_config.json", "unheard_of", 1);
  EXPECT_EQ(with({}).code, 2);
  EXPECT_NE(with({}).err.find("\"unheard_of\" is 1: this key is not known"), std::string::npos) << with({}).err;
}

// As transformers does where generation_config.json is missing (GenerationConfig.from_model_config).
TEST_F(TextEnds, SamplingOfConfigJsonCountsWhereItStandsAlone) {
  publish();
  const std::vector<std::string> plain = {"generate", at("model"), "--prompt", "the", "--tokens", "50", "--threads", "1"};
  const std::string usual = lockstep(plain).out;
  set("config.json", "do_sample", true);
  set("config.json", "temperature", 9.0);
  set("config.json", "repetition_penalty", 1.2);
  set("config.json", "suppress_tokens", Json::Array{id_of("o")});
  const Outcome taken = lockstep(plain);
  EXPECT_NE(taken.out, usual);
  EXPECT_EQ(taken.out.find('o', 3), std::string::npos) << taken.out;
  EXPECT_NE(taken.err.find("(else config.json) says --temperature 9 --top-k 50"), std::string::npos) << taken.err;
  EXPECT_NE(taken.err.find("repetition_penalty is 1.2, which is not done here"), std::string::npos) << taken.err;
  done({"convert", at("model"), at("there")});
  EXPECT_EQ(lockstep({"generate", at("there"), "--prompt", "the", "--tokens", "50", "--threads", "1"}).out, taken.out);
  set("generation_config.json", "transformers_version", "5.24.0");
  EXPECT_EQ(lockstep(plain).out, usual);
}

TEST_F(TextEnds, WhatOfAPromptIsNotReadIsTold) {
  done(words("run", {"train.max_iters=2", "train.eval_interval=2"}));  // reads 12 tokens
  const auto with = [&](const char* prompt) {
    const Outcome outcome = lockstep({"generate", at("run"), "--prompt", prompt, "--tokens", "3", "--threads", "1"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err;
  };
  EXPECT_EQ(with("the quick br").find("left out"), std::string::npos);
  const std::string told = with("the quick brown");
  EXPECT_NE(told.find("the prompt has 15 tokens, and the model reads 12: the first 3 are left out"), std::string::npos) << told;
}

TEST_F(TextEnds, ATextEndsBeforeAStopText) {
  done(words("run", {"train.max_iters=2", "train.eval_interval=2"}));
  const std::string endless = wild("run").out;
  ASSERT_EQ(wild("run", {"--stop", "no such text"}).out, endless);
  const std::string stop = endless.substr(100, 3);
  const std::size_t first = endless.find(stop, 3);
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--stop", stop}, {"--stop", "no such text", "--stop", stop}, {"--stop", stop, "--ranks", "2"}})
    EXPECT_EQ(wild("run", more).out, endless.substr(0, first) + "\n");
  const Outcome empty = wild("run", {"--stop", "", "--samples", "0"});
  EXPECT_EQ(empty.code, 2);
  EXPECT_NE(empty.err.find("--stop \"\""), std::string::npos) << empty.err;
  EXPECT_NE(empty.err.find("--samples 0"), std::string::npos) << empty.err;
}

// What was taught ends documents with a line feed; a plain text has line feeds like any other character.
TEST_F(TextEnds, ALineFeedEndsWhatDocumentsTaught) {
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += R"({"prompt": "the fox", "completion": " jumps )" + std::to_string(i % 97) + "\"}\n";
  io::replace_file(folder_ / "lines.jsonl", lines);
  for (const std::string tokenizer : {"char", "byte"}) {
    done({"prepare", at("lines.jsonl"), "--tokenizer", tokenizer, "--out", at(tokenizer)});
    for (const std::vector<std::string>& ranks : {std::vector<std::string>{}, {"--ranks", "2"}}) {
      fs::remove_all(folder_ / "taught");
      std::vector<std::string> run =
          words("taught", {"data.dir=" + at(tokenizer), "train.max_iters=2", "train.eval_interval=2", "sample.tokens=3000",
                           "sample.prompt=the", "sample.temperature=100", "sample.top_k=1000", "log.style=wordplay"});
      run.insert(run.end(), ranks.begin(), ranks.end());
      const Outcome outcome = lockstep(run);
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      const std::size_t response = outcome.out.find("['response']:\n\n");
      ASSERT_NE(response, std::string::npos) << outcome.out;
      EXPECT_LT(outcome.out.find('\n', response + 16), response + 16 + 2900) << "the sample is one line";
      expect_end("taught", "\n");
    }
  }
  done(words("plain", {"train.max_iters=2", "train.eval_interval=2"}));
  EXPECT_EQ(wild("plain").out, wild("plain", {"--ignore-end"}).out);
  EXPECT_NE(wild("plain").out.substr(0, 500).find('\n'), std::string::npos);
  // What transformers reads ends there as well.
  done({"convert", at("taught"), at("hf")});
  EXPECT_EQ(Json::parse(file("hf/config.json")).at("eos_token_id").integer(), '\n');
  const Json config = Json::parse(file("hf/tokenizer_config.json"));
  EXPECT_EQ(config.find("eos_token"), nullptr) << "of a line feed transformers would make a token of its own";
}

}  // namespace
}  // namespace lockstep::app
