// Special tokens of a published model, as clients of its server meet them.

#include <dlfcn.h>

#include "app/served_run.h"

namespace lockstep::app {
namespace {

/// Its tokens are bytes and some pairs. "Q" is a special one, of which no pair is made, which texts begin with.
class ServedMarks : public ServedRun {
 protected:
  void SetUp() override {
    ServedRun::SetUp();
    if (IsSkipped()) return;
    const std::string words_folder = (folder_ / "words").string();
    ASSERT_EQ(lockstep({"prepare", folder_ / "text.txt", "--tokenizer", "bpe:260", "--out", words_folder}).code, 0);
    ASSERT_EQ(lockstep(words("of_words", {"data.dir=" + words_folder, "model.block_size=200", "train.max_iters=2"})).code, 0);
    ASSERT_EQ(lockstep({"convert", folder_ / "of_words", folder_ / "model"}).code, 0);
    Json json = Json::parse(file("model/tokenizer.json"));
    const Json id = json.at("model").at("vocab").at("Q");
    Json::Array added = json.at("added_tokens").array();
    added.push_back(Json::Object{{"id", id},
                                 {"content", "Q"},
                                 {"single_word", false},
                                 {"lstrip", false},
                                 {"rstrip", false},
                                 {"normalized", false},
                                 {"special", true}});
    json.set("added_tokens", std::move(added));
    const Json mark = Json::parse(R"({"SpecialToken": {"id": "Q", "type_id": 0}})"),
               text = Json::parse(R"({"Sequence": {"id": "A", "type_id": 0}})");
    json.set(
        "post_processor",
        Json::Object{{"type", "TemplateProcessing"},
                     {"single", Json::Array{mark, text}},
                     {"pair", Json::Array{mark, text}},
                     {"special_tokens",
                      Json::Object{{"Q", Json::Object{{"id", "Q"}, {"ids", Json::Array{id}}, {"tokens", Json::Array{"Q"}}}}}}});
    io::replace_file(folder_ / "model/tokenizer.json", json.dump(2));
  }
  /// Starts, and finds a request whose answer has the mark: tokens are all about as likely. Returns it, open at its end.
  std::string request_with_mark() {
    start({}, "model");
    for (int seed = 0; seed < 100; ++seed) {
      const std::string request = R"({"prompt": "the", "max_tokens": 150, "temperature": 100, "seed": )" + std::to_string(seed);
      if (shown(request).find('Q') != std::string::npos) return request;
    }
    ADD_FAILURE() << "no text has the mark";
    return "{";
  }
  std::string shown(const std::string& request) const {
    return text_of(completion(request + R"(, "skip_special_tokens": false})"));
  }
};

TEST_F(ServedMarks, AreNotInAnswersUnlessTheyAreAskedFor) {
  const std::string request = request_with_mark(), with = shown(request), plain = text_of(completion(request + "}"));
  EXPECT_EQ(plain.find('Q'), std::string::npos) << plain;
  EXPECT_LT(plain.size(), with.size());
}

TEST_F(ServedMarks, EndATextWhoseStopTheyAre) {
  const std::string request = request_with_mark(), with = shown(request);
  const Json stopped = completion(request + R"(, "stop": ["Q"]})");
  EXPECT_EQ(text_of(stopped), with.substr(0, with.find('Q')));
  EXPECT_EQ(stopped.at("choices").array()[0].at("finish_reason").string(), "stop");
}

TEST_F(ServedMarks, ThatBeginATextAreNotPutBeforeThemselves) {
  start({}, "model");
  const Json with = completion(R"({"prompt": "Qthe", "max_tokens": 9, "seed": 1})"),
             without = completion(R"({"prompt": "the", "max_tokens": 9, "seed": 1})");
  EXPECT_EQ(text_of(with), text_of(without));
  EXPECT_EQ(with.at("usage").dump(), without.at("usage").dump());
}

// A word of 3 MB takes some 100 MB for as long as its tokens are looked for.
TEST_F(ServedMarks, WhatALargeRequestTookIsGivenBack) {
  for (const char* sanitizer : {"__asan_init", "__tsan_init", "__msan_init"}) {
    if (dlsym(RTLD_DEFAULT, sanitizer) != nullptr) GTEST_SKIP() << "a sanitizer keeps what was freed";
  }
  start({}, "model");
  const std::string body = R"({"prompt": ")" + std::string(3 << 20, 'a') + R"("})";
  const auto round = [&] {
    std::vector<std::jthread> all;
    for (int i = 0; i < 4; ++i) all.emplace_back([&] { EXPECT_EQ(ask("/v1/completions", body).status, 400); });
  };
  const std::int64_t before = server_->resident();
  round();
  round();
  EXPECT_LT(server_->resident() - before, std::int64_t{100} << 20);
}

TEST_F(ServedMarks, WhatGenerationConfigAsksForAndIsNotDoneIsTold) {
  io::replace_file(folder_ / "model/generation_config.json", R"({"repetition_penalty": 1.2})");
  start({}, "model");
  EXPECT_NE(server_->said().find("repetition_penalty is 1.2, which is not done here"), std::string::npos) << server_->said();
}

}  // namespace
}  // namespace lockstep::app
