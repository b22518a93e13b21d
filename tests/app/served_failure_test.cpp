// What clients are told when the writing of their texts fails in the middle.

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "app/serve/api.h"
#include "support/text.h"
#include "support/tiny_engine.h"

namespace lockstep::app {
namespace {

using support::Machine;

/// Tokens are bytes; the third one that is written fails.
class FailingTokenizer final : public data::Tokenizer {
 public:
  std::string_view name() const override { return "failing"; }
  std::int64_t vocabulary() const override { return 65; }
  Json describe() const override { return {}; }
  std::string tokenizer_json() const override { return {}; }
  std::string_view bytes(std::int32_t) const override {
    if (++asked_ == 3) throw std::runtime_error("the third token");
    return "a";
  }

 private:
  std::size_t do_encode(std::string_view, std::int32_t*, std::string&, bool) const override { return 0; }
  mutable int asked_ = 0;
};

/// A server of a tiny model, without a network.
struct FailingServer {
  Machine machine;
  std::unique_ptr<train::Engine> engine = make_engine(support::tiny_config(), machine);
  const arch::ModelConfig& config = engine->context().config;
  std::vector<layout::Chunk> chunks{{.blocks = {0, config.layers}, .embedding = true, .head = true}};
  train::PipelineLinks links;
  Arena workspace{"serving", MemoryKind::workspace}, cache{"serving_cache", MemoryKind::workspace};
  std::unique_ptr<train::TextBatch> batch;
  FailingTokenizer tokenizer;
  ServedModel model;
  std::unique_ptr<TextService> service;
  std::jthread writer;

  FailingServer() {
    batch = std::make_unique<train::TextBatch>(train::ModelShare{engine->context(), chunks, links},
                                               train::BatchSize{.texts = 2, .pages = 8, .rows = 16, .rows_of_prompts = 16},
                                               machine.runtime->team());
    batch->declare(workspace, cache);
    Ledger ledger;
    workspace.commit(*machine.runtime, ledger);
    cache.commit(*machine.runtime, ledger);
    model = {.name = "tiny",
             .vocabulary = config.vocabulary,
             .longest = batch->longest(),
             .tokenizer = &tokenizer,
             .habits = {.ends = {}, .never = {}, .generation = {}},
             .most_choices = 2};
    service = std::make_unique<TextService>(*batch, tokenizer, 4);
    writer = std::jthread([this] { EXPECT_THROW(service->run(), std::runtime_error); });
  }
  io::http::ServedAnswer answer(const std::string& more) const {
    Api api(model, *service, {}, "it");
    return api.answer({.method = "POST",
                       .path = "/v1/completions",
                       .fields = {},
                       .body = R"({"prompt": [1, 2], "max_tokens": 5)" + more + "}",
                       .gone = [] { return false; }});
  }
};

// OpenAI's client throws at an event with an "error" (openai-python, _streaming.py), and takes "[DONE]" for a good end.
TEST(ServedFailure, AStreamEndsWithAnError) {
  const FailingServer server;
  const io::http::ServedAnswer answer = server.answer(R"(, "stream": true)");
  std::string events;
  answer.stream([&](std::string_view event) {
    events += event;
    return true;
  });
  EXPECT_TRUE(contains(events, R"("text":"a)")) << events;
  EXPECT_TRUE(
      events.ends_with("data: {\"error\":{\"message\":\"the server has failed at this request\","
                       "\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n"))
      << events;
  EXPECT_FALSE(contains(events, "DONE") || contains(events, "stop")) << events;
}

TEST(ServedFailure, AWholeAnswerIsAnError) {
  const FailingServer server;
  const io::http::ServedAnswer answer = server.answer("");
  EXPECT_EQ(answer.status, 500);
  EXPECT_TRUE(contains(answer.body, R"("type":"server_error")")) << answer.body;
  EXPECT_EQ(server.answer("").status, 500) << "no text is written any more, so none waits";
}

}  // namespace
}  // namespace lockstep::app
