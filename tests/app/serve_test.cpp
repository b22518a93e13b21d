// The server of a trained model, as clients of OpenAI's API meet it.

#include "app/served_run.h"
#include "base/text/utf8.h"

namespace lockstep::app {
namespace {

class Serve : public ServedRun {
 protected:
  /// Serves a model of documents whose tokens are bytes.
  void start_of_bytes() {
    const std::string bytes = (folder_ / "bytes").string();
    std::string texts;
    for (int i = 0; i < 400; ++i) texts += "{\"text\": \"the quick brown fox\"}\n";
    io::replace_file(folder_ / "texts.jsonl", texts);
    ASSERT_EQ(lockstep({"prepare", folder_ / "texts.jsonl", "--tokenizer", "byte", "--out", bytes}).code, 0);
    ASSERT_EQ(lockstep(words("of_bytes", {"data.dir=" + bytes, "model.block_size=200", "train.max_iters=4"})).code, 0);
    start({}, "of_bytes");
  }
};

TEST_F(Serve, WritesWhatGenerateWrites) {
  start();
  const std::string prompt = "the quick brown fox";
  const Outcome generated =
      lockstep({"generate", (folder_ / "run").string(), "--prompt", prompt, "--tokens", "50", "--temperature", "0.9", "--top-k",
                "7", "--top-p", "0.95", "--seed", "5", "--threads", "1"});
  const std::string body =
      R"({"prompt": ")" + prompt + R"(", "max_tokens": 50, "temperature": 0.9, "top_k": 7, "top_p": 0.95, "seed": 5})";
  const Json answer = completion(body);
  EXPECT_EQ(prompt + text_of(answer) + "\n", generated.out);
  EXPECT_EQ(answer.at("choices").array()[0].at("finish_reason").string(), "length");
  EXPECT_EQ(answer.at("usage").dump(), R"({"prompt_tokens":19,"completion_tokens":50,"total_tokens":69})");
  // Again, beside others that come and go.
  std::vector<std::jthread> others;
  for (int i = 0; i < 6; ++i) {
    others.emplace_back([&, i] {
      HttpClient one = client();
      one.post("/v1/completions",
               R"({"prompt": "the lazy dog", "max_tokens": 150, "stream": true, "seed": )" + std::to_string(i) + "}");
      if (i % 2 == 0) one.answer();  // the rest go away
    });
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(text_of(completion(body)), text_of(answer));
}

TEST_F(Serve, StreamsWhatItAnswersWhole) {
  start();
  const std::string body = R"({"prompt": "fox", "max_tokens": 30, "seed": 3, "n": 2, "logprobs": 2)";
  const Json whole = completion(body + "}");
  const HttpClient::Answer events =
      ask("/v1/completions", body + R"(, "stream": true, "stream_options": {"include_usage": true}})");
  EXPECT_NE(events.head.find("text/event-stream"), std::string::npos) << events.head;
  ASSERT_TRUE(events.body.ends_with("data: [DONE]\n\n"));
  std::string texts[2];
  std::vector<double> likelihoods;
  Json usage;
  std::istringstream lines(events.body);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("data: {")) continue;
    const Json event = Json::parse(line.substr(6));
    if (!event.at("usage").is_null()) usage = event.at("usage");
    for (const Json& choice : event.at("choices").array()) {
      texts[choice.at("index").integer()] += choice.at("text").string();
      if (choice.at("index").integer() == 1) continue;
      for (const Json& one : choice.at("logprobs").at("token_logprobs").array()) likelihoods.push_back(one.number());
    }
  }
  EXPECT_EQ(texts[0], text_of(whole));
  EXPECT_EQ(texts[1], text_of(whole, 1));
  EXPECT_NE(texts[0], texts[1]);
  EXPECT_EQ(usage.dump(), whole.at("usage").dump());
  const Json& told = whole.at("choices").array()[0].at("logprobs");
  ASSERT_EQ(likelihoods.size(), 30U);
  for (std::size_t i = 0; i < 30; ++i) {
    EXPECT_EQ(likelihoods[i], told.at("token_logprobs").array()[i].number());
    EXPECT_LE(likelihoods[i], told.at("top_logprobs").array()[i].object()[0].second.number());
  }
}

TEST_F(Serve, StopTextsEndAText) {
  start();
  const std::string all = text_of(completion(R"({"prompt": "the", "max_tokens": 60, "seed": 1, "temperature": 5})"));
  const std::string stop = all.substr(20, 2);
  const Json answer =
      completion(R"({"prompt": "the", "max_tokens": 60, "seed": 1, "temperature": 5, "stop": [)" + Json(stop).dump() + "]}");
  EXPECT_EQ(text_of(answer), all.substr(0, all.find(stop)));
  EXPECT_EQ(answer.at("choices").array()[0].at("finish_reason").string(), "stop");
}

TEST_F(Serve, EachPromptOfAListHasAsManyTokensAsItWouldAlone) {
  start();
  const std::string many(150, 'a');
  const Json answer = completion(R"({"prompt": ["a", ")" + many + R"("], "max_tokens": 100, "seed": 1})");
  EXPECT_EQ(text_of(answer, 0).size(), 100U);
  EXPECT_EQ(text_of(answer, 1).size(), 50U);
  EXPECT_EQ(text_of(answer, 0), text_of(completion(R"({"prompt": "a", "max_tokens": 100, "seed": 1})")));
}

TEST_F(Serve, TheDrawnTokenIsAmongTheLikelyOnes) {
  start();
  const Json answer = completion(R"({"prompt": "a", "max_tokens": 40, "seed": 1, "temperature": 5, "logprobs": 1})");
  const Json& told = answer.at("choices").array()[0].at("logprobs");
  std::size_t others = 0;
  for (std::size_t i = 0; i < 40; ++i) {
    const Json& top = told.at("top_logprobs").array()[i];
    const Json* drawn = top.find(told.at("tokens").array()[i].string());
    ASSERT_NE(drawn, nullptr) << top.dump();
    EXPECT_EQ(drawn->number(), told.at("token_logprobs").array()[i].number());
    others += top.object().size() - 1;
  }
  EXPECT_GT(others, 0U);
}

// Places are of the text that is answered, where bytes that are no characters are U+FFFD.
TEST_F(Serve, TextOffsetsAreThoseOfTheText) {
  start_of_bytes();
  int compared = 0;
  for (int seed = 0; seed < 5; ++seed) {
    const Json choice = completion(R"({"prompt": "the", "max_tokens": 60, "temperature": 5, "logprobs": 0, "seed": )" +
                                   std::to_string(seed) + "}")
                            .at("choices")
                            .array()[0];
    std::vector<std::string> characters;
    for (const char byte : choice.at("text").string()) {
      if (!is_continuation(byte)) characters.emplace_back();
      characters.back() += byte;
    }
    const Json& told = choice.at("logprobs");
    for (std::size_t i = 0; i < told.at("tokens").array().size(); ++i) {
      const std::string& token = told.at("tokens").array()[i].string();
      if (token.starts_with("bytes:")) continue;
      EXPECT_EQ(characters.at(told.at("text_offset").array()[i].integer()), token) << i;
      ++compared;
    }
  }
  EXPECT_GT(compared, 20);
}

TEST_F(Serve, EqualPromptsOfAListAreEachDrawnUnlessASeedIsGiven) {
  start();
  const std::string body = R"({"prompt": ["the", "the"], "max_tokens": 60, "temperature": 5)";
  const Json drawn = completion(body + "}"), seeded = completion(body + R"(, "seed": 3})");
  EXPECT_NE(text_of(drawn, 0), text_of(drawn, 1));
  EXPECT_EQ(text_of(seeded, 0), text_of(seeded, 1));
}

// An end token comes where the next bytes might have been those of a stop text.
TEST_F(Serve, TheBeginningOfAStopTextStaysWhereATextEnds) {
  start_of_bytes();
  const auto ask_with = [&](int seed, const std::string& stop) {
    return completion(R"({"prompt": "the", "max_tokens": 150, "temperature": 5, "seed": )" + std::to_string(seed) + stop + "}");
  };
  for (int seed = 0; seed < 200; ++seed) {
    const Json ended = ask_with(seed, "");
    const std::string text = text_of(ended);
    if (ended.at("choices").array()[0].at("finish_reason").string() != "stop" || text.empty()) continue;
    const std::string last = text.substr(text.size() - 1);
    if (static_cast<unsigned char>(last[0]) >= 0x80) continue;
    EXPECT_EQ(text_of(ask_with(seed, R"(, "stop": )" + Json(last + "\x01never").dump())), text);
    return;
  }
  FAIL() << "no text ended by itself";
}

TEST_F(Serve, ChatsByATemplate) {
  start({"--chat-template", "chatml", "--name", "tiny"});
  const HttpClient::Answer lacking = ask("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "hi"}]})");
  EXPECT_EQ(lacking.status, 400) << lacking.body;  // the vocabulary has no "<|"
  EXPECT_NE(lacking.body.find("vocabulary lacks"), std::string::npos) << lacking.body;
  server_->stop(SIGTERM);
  io::replace_file(folder_ / "plain.jinja", "{% for m in messages %}{{ m.content }}\n{% endfor %}");
  start({"--chat-template", (folder_ / "plain.jinja").string()});
  const HttpClient::Answer said = ask(
      "/v1/chat/completions", R"({"messages": [{"role": "user", "content": "the fox"}], "max_completion_tokens": 9, "seed": 2})");
  ASSERT_EQ(said.status, 200) << said.body;
  const Json choice = Json::parse(said.body).at("choices").array()[0];
  EXPECT_EQ(choice.at("message").at("role").string(), "assistant");
  EXPECT_EQ(choice.at("message").at("content").string(),
            text_of(completion(R"({"prompt": "the fox\n", "max_tokens": 9, "seed": 2})")));
}

TEST_F(Serve, RefusesWrongRequests) {
  start();
  struct Case {
    const char *body, *says;
    int status = 400;
  };
  const Case cases[] = {
      {"{", "the request"},
      {"[]", "must be a JSON object"},
      {"{\"prompt\": \"\xff\"}", "not UTF-8"},
      {"{}", "'prompt' is missing"},
      {R"({"prompt": ""})", "the prompt is empty"},
      {R"({"prompt": 7})", "'prompt' is 7: it must be a text"},
      {R"({"prompt": [1, 700]})", "'prompt' is 700"},
      {R"({"prompt": "caf\u00e9"})", "vocabulary lacks"},
      {R"({"prompt": "a", "model": "other"})", "there is no model", 404},
      {R"({"prompt": "a", "temperature": -1})", "'temperature' is -1: it must be a number from 0 to 100"},
      {R"({"prompt": "a", "top_p": "x"})", "'top_p' is \\\"x\\\""},
      {R"({"prompt": "a", "n": 9})", "'n' is 9: it must be an integer from 1 to 8"},
      {R"({"prompt": ["a", "b", "c"], "n": 4})", "3 prompts with 4 choices"},
      {R"({"prompt": "a", "max_tokens": 0})", "'max_tokens' is 0"},
      {R"({"prompt": "a", "stop": [""]})", "'stop' is"},
      {R"({"prompt": "a", "stream": 1})", "'stream' is 1: it must be true or false"},
      {R"({"prompt": "a", "logprobs": 21})", "'logprobs' is 21"},
      {R"({"prompt": "a", "echo": true})", "'echo' is true: it must be false"},
      {R"({"prompt": "a", "suffix": "b"})", "'suffix' is"},
      {R"({"prompt": "a", "best_of": 3})", "'best_of' is 3"},
      {R"({"prompt": "a", "logit_bias": {"5": 1}})", "'logit_bias' is"},
      {R"({"prompt": "a", "presence_penalty": 1})", "'presence_penalty' is 1: it must be 0"},
      {R"({"prompt": "a", "frequency_penalty": -0.5})", "'frequency_penalty' is -0.5"},
      {R"({"prompt": "a", "response_format": {"type": "json_object"}})", "'response_format' is"},
      {R"({"prompt": "a", "tool_choice": "required"})", "'tool_choice' is"},
      {R"({"prompt": "a", "min_p": 0.9})", "'min_p' is 0.9: it must be 0"},
      {R"({"prompt": "a", "repetition_penalty": 2})", "'repetition_penalty' is 2: it must be 1"},
      {R"({"prompt": "a", "stop_token_ids": [5]})", "'stop_token_ids' is [5]: it must be []"},
      {R"({"prompt": "a", "ignore_eos": true})", "'ignore_eos' is true: it must be false"},
      {R"({"prompt": "a", "functions": [{"name": "f"}]})", "'functions' is"},
      {R"({"prompt": "a", "function_call": {"name": "f"}})", "'function_call' is"},
      {R"({"prompt": "a", "temprature": 0})", "'temprature' is not known here: leave it out, or did you mean 'temperature'?"},
      {R"({"prompt": "a", "guided_regex": "b"})", "'guided_regex' is not known here"},
      {R"({"prompt": "a", "stream": true, "stream_options": {"include_usage": 1}})",
       "'include_usage' is 1: it must be true or false"},
      {R"({"prompt": "a", "stream_options": {"include_usage": true}})", "'stream_options' needs \\\"stream\\\": true"},
      {R"({"prompt": "a", "stream": true, "stream_options": {"include_use": true}})", "did you mean 'include_usage'?"},
      {R"({"prompt": "a", "stream": true, "stream_options": {"continuous_usage_stats": true}})",
       "'continuous_usage_stats' is true: it must be false"},
      {R"({"prompt": "a", "max_tokens": 3, "max_completion_tokens": 4})",
       "'max_tokens' is 3 and 'max_completion_tokens' is 4: leave one out"},
  };
  for (const Case& one : cases) {
    const HttpClient::Answer answer = ask("/v1/completions", one.body);
    EXPECT_EQ(answer.status, one.status) << one.body;
    EXPECT_NE(answer.body.find(one.says), std::string::npos) << one.body << " -> " << answer.body;
    EXPECT_TRUE(Json::parse(answer.body).at("error").at("message").is_string());
  }
  const std::string too_long(300, 'a');
  const HttpClient::Answer answer = ask("/v1/completions", R"({"prompt": ")" + too_long + "\"}");
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("context_length_exceeded"), std::string::npos) << answer.body;
  EXPECT_EQ(ask("/v1/nothing", "{}").status, 404);
  const HttpClient::Answer posted = ask("/v1/models", "{}");
  EXPECT_EQ(posted.status, 405);
  EXPECT_NE(posted.head.find("Allow: GET, HEAD\r\n"), std::string::npos) << posted.head;
  EXPECT_EQ(ask("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "hi"}]})").status, 400) << "no template";
  EXPECT_EQ(ask("/v1/completions", "x", "Content-Encoding: gzip\r\n").status, 415);
}

TEST_F(Serve, WhatChangesNoTextIsTakenAndTold) {
  start({"--name", "tiny"});
  const HttpClient::Answer ignored =
      ask("/v1/completions",
          R"({"prompt": "a", "max_tokens": 1, "user": "x", "logit_bias": {}, "echo": false, "suffix": null,)"
          R"( "best_of": 1, "presence_penalty": 0.0, "response_format": {"type": "text"}, "metadata": {}, "min_p": 0,)"
          R"( "repetition_penalty": 1.0, "stop_token_ids": [], "function_call": "none", "strange": null})");
  EXPECT_EQ(ignored.status, 200) << ignored.body;
  EXPECT_NE(ignored.head.find("X-Lockstep-Ignored: user, metadata\r\n"), std::string::npos) << ignored.head;
  const HttpClient::Answer streamed =
      ask("/v1/completions",
          R"({"prompt": "a", "max_tokens": 1, "max_completion_tokens": 1, "reasoning_effort": "low", "stream": true,)"
          R"( "stream_options": {"include_usage": null, "include_obfuscation": false, "continuous_usage_stats": false}})");
  EXPECT_EQ(streamed.status, 200) << streamed.body;
  EXPECT_NE(streamed.head.find("X-Lockstep-Ignored: include_obfuscation, reasoning_effort\r\n"), std::string::npos)
      << streamed.head;
  const auto model = [&](const std::string& name) {
    HttpClient one = client();
    one.send("GET /v1/models/" + name + " HTTP/1.1\r\n\r\n");
    return one.answer();
  };
  EXPECT_EQ(Json::parse(model("tiny").body).at("id").string(), "tiny");
  EXPECT_EQ(model("other").status, 404);
}

TEST_F(Serve, AsksForAKey) {
  io::replace_file(folder_ / "keys", "secret-one\n\n  secret-two \r\n");
  start({"--api-key-file", (folder_ / "keys").string()});
  EXPECT_EQ(ask("/v1/completions", R"({"prompt": "a"})").status, 401);
  EXPECT_EQ(ask("/v1/completions", R"({"prompt": "a"})", "Authorization: Bearer secret\r\n").status, 401);
  EXPECT_EQ(ask("/v1/completions", R"({"prompt": "a"})", "Authorization: Bearer secret-two\r\n").status, 200);
  EXPECT_EQ(ask("/v1/completions", R"({"prompt": "a"})", "Authorization: bearer secret-one\r\n").status, 200);
  HttpClient health = client();
  health.send("GET /health HTTP/1.1\r\n\r\n");
  EXPECT_EQ(health.answer().status, 200);
  EXPECT_EQ(file("said").find("secret"), std::string::npos);
}

// Requests of as many texts as there are places meet unless every text of one ends before the other is read.
TEST_F(Serve, AFullQueueRefusesAndAClientThatLeavesFreesItsPlace) {
  start({"--texts", "100", "--waiting", "0"});
  const std::string endless = R"({"prompt": "the", "max_tokens": 190, "seed": 1, "n": 100)";
  int refused = 0, answered = 0;
  const auto idle = [&] { return metric("lockstep_texts_active") + metric("lockstep_texts_waiting") == 0; };
  for (int turn = 0; turn < 100 && refused == 0; ++turn) {
    EXPECT_TRUE(support::comes_true(idle));
    HttpClient first = client();
    first.post("/v1/completions", endless + R"(, "stream": true})");
    EXPECT_EQ(first.answer_head().status, 200);
    const HttpClient::Answer second = ask("/v1/completions", R"({"prompt": "a", "max_tokens": 1, "n": 100})");
    second.status == 429 ? ++refused : ++answered;
    if (second.status == 429) {
      EXPECT_NE(second.head.find("Retry-After: 1"), std::string::npos);
      EXPECT_NE(second.body.find("queue_full"), std::string::npos);
    }
  }
  EXPECT_EQ(refused, 1) << answered;
  // All who streamed have gone by now.
  EXPECT_TRUE(support::comes_true(idle));
  EXPECT_EQ(ask("/v1/completions", R"({"prompt": "a", "max_tokens": 1})").status, 200);
  EXPECT_TRUE(support::comes_true([&] { return metric("lockstep_cache_pages") == metric("lockstep_cache_pages_free"); }));
}

TEST_F(Serve, AnswersWhatCameBeforeItWasStopped) {
  start();
  HttpClient one = client();
  one.post("/v1/completions", R"({"prompt": "the", "max_tokens": 190, "seed": 1})");
  ASSERT_TRUE(support::comes_true([&] { return metric("lockstep_texts_total") >= 1; }));
  server_->signal(SIGTERM);
  EXPECT_EQ(one.answer().status, 200);
  EXPECT_EQ(server_->end(), 0);
}

TEST_F(Serve, ItsWordsAreChecked) {
  const Ended ended = run_into(
      STDOUT_FILENO, {"serve", (folder_ / "run").string(), "--port", "-1", "--texts", "0", "--context", "1", "--cache", "-5"});
  EXPECT_EQ(ended.code, kUserError);
  for (const char* text : {"--port -1: must be from 0", "--texts 0: must be at least 1", "--context 1: must be at least 2",
                           "--cache -5: must be 0 or at least 64"})
    EXPECT_NE(ended.err.find(text), std::string::npos) << ended.err;
  io::replace_file(folder_ / "none", "\n");
  EXPECT_EQ(run_into(STDOUT_FILENO, {"serve", (folder_ / "run").string(), "--api-key-file", (folder_ / "none").string()}).code,
            kUserError);
}

}  // namespace
}  // namespace lockstep::app
