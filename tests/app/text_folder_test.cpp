// `train TEXT`: the folder that the text is prepared into, and the tokenizer.

#include "app/folder/text_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "app/train_command.h"
#include "data/token_description.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

TEST(DataSettings, AreAFolderOrATextNamedByItsContent) {
  using List = std::vector<std::string>;
  const TempFolder folder;
  const std::string text = folder / "book.1.txt";
  io::replace_file(text, "a book");
  io::make_folders(folder / "data");
  io::replace_file(folder / "data/train.bin", "");
  EXPECT_EQ(data_settings(folder / "data", {"model.n_layer=2"}), List{"data.dir=" + (folder / "data").string()});
  // printf 'a book' | sha256sum
  EXPECT_EQ(data_settings(text, {}), (List{"data.dir=null", "data.file=" + text, "data.dataset=book-ae359642"}));
  const auto refusal = [](const std::string& word, const List& overrides) {
    try {
      data_settings(word, overrides);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal("/dev/null", {}).find("/dev/null is no file: "), std::string::npos);
  EXPECT_NE(refusal("-", {}).find("- is no file: "), std::string::npos);
  EXPECT_NE(refusal(folder.path(), {}).find(" is a folder, and has no prepared text\n  -> prepare its texts: "),
            std::string::npos);
  io::replace_file(folder / "recipe.toml", "[train]\n");
  EXPECT_NE(refusal(folder / "recipe.toml", {}).find("recipe.toml has settings, by its name"), std::string::npos);
  io::replace_file(folder / "ds.json", R"({"train_batch_size": 8})");
  EXPECT_NE(refusal(folder / "ds.json", {}).find("train.ds_config_path="), std::string::npos);
  const std::string two = refusal(folder / "none", {"data.dir=data/x"});
  EXPECT_NE(two.find("DATA is given twice: "), std::string::npos) << two;
  EXPECT_NE(two.find("none: there is no such text or folder"), std::string::npos) << two;
}

/// Models of a BPE of its own.
class TextOfModel : public TrainCommand {
 protected:
  void SetUp() override {
    TrainCommand::SetUp();
    ASSERT_EQ(lockstep({"prepare", at("text.txt"), "--tokenizer", "bpe:280", "--out", at("words")}).code, 0);
    std::vector<std::string> run = words("run");
    run[1] = "data.dir=" + at("words");
    ASSERT_EQ(lockstep(run).code, 0);
    ASSERT_EQ(lockstep({"convert", at("run"), at("hf")}).code, 0);
    ASSERT_EQ(lockstep({"convert", at("run"), at("model.gguf")}).code, 0);
    io::replace_file(folder_ / "other.txt", "the lazy dog 12 jumps over the quick brown fox.\n" + file("text.txt"));
  }
  std::string at(const std::string& path) const { return (folder_ / path).string(); }
  Outcome train(const std::string& text, const std::string& from, const std::string& run, const std::string& more = "") const {
    std::vector<std::string> all = {"train",
                                    at(text),
                                    "data.root_path=" + at("root"),
                                    "train.init_from=" + from,
                                    "log.dir=" + at(run),
                                    "train.max_iters=2",
                                    "train.warmup_iters=0",
                                    "train.eval_iters=1",
                                    "sample.tokens=4"};
    if (!more.empty()) all.push_back(more);
    return lockstep(all);
  }
  /// What was prepared of a text, by name.
  std::vector<std::string> prepared() const {
    std::vector<std::string> names;
    if (io::is_folder(folder_ / "root"))
      for (const auto& entry : fs::directory_iterator(folder_ / "root")) names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }
};

TEST_F(TextOfModel, HasTheModelsTokenizerInAFolderOfItsOwn) {
  const std::string root = "data.root_path=" + at("root");
  std::vector<std::string> own = words("own");
  own.insert(own.begin() + 1, {at("other.txt"), root});
  std::erase(own, "data.dir=" + at("data"));
  ASSERT_EQ(lockstep(own).code, 0);
  ASSERT_EQ(prepared().size(), 1);
  for (const std::string from : {"hf", "run", "model.gguf"}) {
    const Outcome outcome = train("other.txt", at(from), "from_" + from);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("vocabulary 280"), std::string::npos) << outcome.out;
    EXPECT_EQ(prepared().size(), from == "model.gguf" ? 3 : 2) << from << ": a GGUF file has its vocabulary in its own words";
    EXPECT_TRUE(prepared()[1].starts_with(prepared()[0] + "-"));
  }
  const Outcome resumed = train("other.txt", "resume", "from_hf", "train.max_iters=3");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(train("other.txt", "resume", "own", "train.max_iters=9").code, 0);
  EXPECT_EQ(train("other.txt", at("own"), "again").code, 0);
  EXPECT_EQ(prepared().size(), 3);
}

TEST_F(TextOfModel, AFileOfWeightsHasItsTokenizerBesideIt) {
  const Outcome outcome = train("other.txt", at("hf/model.safetensors"), "from_file");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("vocabulary 280"), std::string::npos) << outcome.out;
}

// The template decides on the tokens, so each has a folder of its own.
TEST_F(TextOfModel, ConversationsAreWrittenByTheTemplateThatTheModelCarries) {
  const auto templ = [](const std::string& mark) {
    return "{% for m in messages %}<{{ m.role }}>{{ m.content }}" + mark +
           "{% endfor %}{{ '<assistant>' if add_generation_prompt }}";
  };
  io::replace_file(folder_ / "hf/chat_template.jinja", templ("<end>"));
  ASSERT_EQ(lockstep({"convert", at("hf"), at("carried.gguf")}).code, 0);
  std::string rows;
  for (int i = 0; i < 40; ++i)
    rows += R"({"messages": [{"role": "user", "content": "Hi, what is it?"}, {"role": "assistant", "content": ")" +
            std::to_string(i) + "\"}]}\n";
  io::replace_file(folder_ / "chats.jsonl", rows);
  const auto tokens = [&](std::size_t folder) {
    return data::read_description(folder_ / "root" / prepared().at(folder)).value().find("train.bin")->sha256;
  };
  const auto said = [&](const std::string& from, const std::string& by, std::size_t folders) {
    const Outcome outcome = train("chats.jsonl", at(from), "of_" + from + std::to_string(folders));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("found: messages (role, content), written by " + at(by) + "; taught: the assistant's turns"),
              std::string::npos)
        << outcome.out;
    EXPECT_EQ(prepared().size(), folders) << from;
  };
  said("hf", "hf/chat_template.jinja", 1);
  const std::string folder = prepared().front(), ids = tokens(0);
  EXPECT_EQ(train("chats.jsonl", "resume", "of_hf1", "train.max_iters=3").code, 0);
  EXPECT_EQ(prepared(), std::vector<std::string>{folder});
  fs::remove_all(folder_ / "root");
  said("of_hf1", "of_hf1", 1);
  EXPECT_EQ(prepared(), std::vector<std::string>{folder});
  EXPECT_EQ(tokens(0), ids);
  fs::remove_all(folder_ / "root");
  said("carried.gguf", "carried.gguf", 1);
  EXPECT_EQ(tokens(0), ids);
  said("hf", "hf/chat_template.jinja", 2);
  io::replace_file(folder_ / "hf/chat_template.jinja", templ("<stop>"));
  said("hf", "hf/chat_template.jinja", 3);
  const Outcome none = train("chats.jsonl", at("run"), "x");
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("no chat template says how a model reads these conversations"), std::string::npos) << none.err;
}

TEST_F(TextOfModel, DocumentsOfModelsThatEndThemByOtherTokensAreApart) {
  std::string rows;
  for (int i = 0; i < 40; ++i) rows += R"({"text": "the quick brown fox )" + std::to_string(i) + "\"}\n";
  io::replace_file(folder_ / "rows.jsonl", rows);
  std::set<std::string> ends;
  for (const std::string end : {"<|endoftext|>", "z"}) {
    io::replace_file(folder_ / "hf/tokenizer_config.json", Json(Json::Object{{"eos_token", end}}).dump());
    const Outcome outcome = train("rows.jsonl", at("hf"), "of" + std::to_string(ends.size()));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("found: texts"), std::string::npos) << outcome.out;
    for (const std::string& folder : prepared()) {
      const auto tokenizer = data::make_tokenizer(data::read_description(folder_ / "root" / folder).value().tokenizer);
      ends.emplace(tokenizer->bytes(tokenizer->end_of_text().value()));
    }
  }
  EXPECT_EQ(ends, (std::set<std::string>{"<|endoftext|>", "z"}));
}

TEST_F(TextOfModel, AFolderInPlaceOfATextIsToldWhatItIs) {
  const auto said = [&](const std::string& folder) { return lockstep({"train", at(folder)}).err; };
  EXPECT_NE(said("run").find("run is a run, and has no prepared text\n  -> go on with it: "), std::string::npos) << said("run");
  EXPECT_NE(said("hf").find("hf is a model, and has no prepared text\n  -> begin with it: "), std::string::npos) << said("hf");
}

TEST_F(TextOfModel, IsRefusedInWordsOfTrain) {
  io::replace_file(folder_ / "chats.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}\n");
  const Outcome chats = train("chats.jsonl", at("hf"), "x");
  EXPECT_EQ(chats.code, 2);
  EXPECT_NE(chats.err.find("prepare " + at("chats.jsonl") + " --tokenizer hf:" + at("hf") + " --out " + at("root/chats-")),
            std::string::npos)
      << chats.err;
  EXPECT_NE(chats.err.find(", and then train as before"), std::string::npos) << chats.err;
  const Outcome missing = train("other.txt", at("nowhere"), "x");
  EXPECT_NE(missing.err.find("train.init_from = " + at("nowhere")), std::string::npos) << missing.err;
  fs::remove(folder_ / "hf/tokenizer.json");
  const Outcome none = train("other.txt", at("hf"), "x");
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("train.init_from = " + at("hf") + ": " + at("hf") + " has no tokenizer.json, so nothing says"),
            std::string::npos)
      << none.err;
  fs::remove(folder_ / "words/tokens.json");
  std::vector<std::string> raw = words("raw");
  raw[1] = "data.dir=" + at("words");
  ASSERT_EQ(lockstep(raw).code, 0);
  const Outcome ids = train("other.txt", at("raw"), "x");
  EXPECT_EQ(ids.code, 2);
  EXPECT_NE(ids.err.find("it has no tokenizer, so nothing says"), std::string::npos) << ids.err;
  EXPECT_FALSE(io::exists(folder_ / "x"));
}

}  // namespace
}  // namespace lockstep::app
