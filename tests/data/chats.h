#pragma once

// Conversations that a test prepares, and what their token files hold.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "data/corpus.h"
#include "data/prepare/prepare.h"
#include "data/support.h"

namespace lockstep::data {

inline std::string text_in(std::FILE* file) {
  std::string text(1 << 16, '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

inline std::tm a_day() {
  std::tm made{};
  made.tm_year = 126, made.tm_mon = 10, made.tm_mday = 25;
  return made;
}

// prepare() of a file with these lines, and what its token files hold.
class Chats {
 public:
  Chats() { options.tokenizer = "byte", options.chats = {.chat_template = "chatml", .now = a_day()}; }

  void prepare(const std::string& lines, const std::string& name = "chats.jsonl") {
    options.input = folder.write(name, lines);
    options.out = folder.path("out");
    options.standard_input = nullptr;
    std::FILE *printed = std::tmpfile(), *said = std::tmpfile();
    Log out(said);
    options.facts = printed;
    options.progress = said;
    std::string error;
    try {
      data::prepare(options, out);
    } catch (const UserError& thrown) {
      error = thrown.what();
      EXPECT_FALSE(thrown.problems().front().remedy.empty()) << error;
    }
    facts = text_in(printed);
    log = text_in(said);
    if (!error.empty()) throw UserError(error, "-");
  }
  /// What prepare() says when it refuses the lines; nothing is left of it.
  std::string refused(const std::string& lines) {
    std::filesystem::remove_all(folder.path("out"));
    const std::string message = user_error([&] { prepare(lines); });
    EXPECT_FALSE(std::filesystem::exists(folder.path("out"))) << message;
    return message;
  }

  struct Part {
    std::vector<std::int32_t> ids;
    std::string text, taught;  ///< text of the tokens, and of those that are taught
    std::string marked;        ///< the text with what is taught in brackets
  };
  Part part(const std::string& split) const {
    Log quiet;
    const Corpus corpus = open_corpus(folder.path("out"), {}, quiet);
    const TokenFile& file = split == "train" ? corpus.train : corpus.val;
    Part made;
    made.ids.resize(static_cast<std::size_t>(file.tokens()));
    file.read(0, made.ids);
    std::vector<std::int32_t> masked = made.ids;
    file.apply_mask(0, masked);
    bool inside = false;
    for (std::size_t i = 0; i <= masked.size(); ++i) {
      const bool is_taught = i < masked.size() && masked[i] >= 0;
      if (is_taught != inside) made.marked += is_taught ? "[" : "]";
      inside = is_taught;
      if (i == masked.size()) break;
      const std::string_view bytes = corpus.tokenizer->bytes(made.ids[i]);
      made.text += bytes;
      made.marked += bytes;
      if (is_taught) made.taught += bytes;
    }
    return made;
  }

  Folder folder;
  PrepareOptions options;
  std::string facts, log;
};

using Turns = std::vector<std::pair<const char*, const char*>>;
inline std::string chat_line(const Turns& turns) {
  Json::Array messages;
  for (const auto& [role, content] : turns) messages.emplace_back(Json::Object{{"role", role}, {"content", content}});
  return Json(Json::Object{{"messages", messages}}).dump() + "\n";
}
inline const Turns two_answers = {{"user", "Hi"}, {"assistant", "A"}, {"user", "So?"}, {"assistant", "B"}};
inline const Turns one_answer = {{"user", "Hi"}, {"assistant", "A"}};

// A byte-level BPE with these added tokens behind those that it learns, in the folder `hf`.
inline void write_tokenizer(Chats& chats, const std::vector<std::string>& added, const char* config = nullptr) {
  Chats trained;
  trained.options.tokenizer = "bpe:280";
  trained.options.chats = {};
  trained.prepare("the assistant and the user and the assistant\n\nthe user and so on, and so on\n\n", "t.txt");
  Json json = Json::parse(trained.folder.read("out/tokenizer.json"));
  Json::Array tokens = json.at("added_tokens").array();
  auto id = static_cast<std::int64_t>(json.at("model").at("vocab").object().size());
  for (const Json& token : tokens) id = std::max(id, token.at("id").integer() + 1);
  for (const std::string& token : added) {
    Json row = tokens.front();
    tokens.push_back(row.set("content", token).set("id", id++));
  }
  json.set("added_tokens", tokens);
  chats.folder.write("hf/tokenizer.json", json.dump());
  if (config != nullptr) chats.folder.write("hf/tokenizer_config.json", config);
  chats.options.tokenizer = "hf:" + chats.folder.path("hf");
}

}  // namespace lockstep::data
