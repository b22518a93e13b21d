#pragma once

// A trained model of which `serve` is a process, as clients of OpenAI's API meet it.

#include <optional>

#include "app/server_process.h"
#include "app/train_command.h"
#include "io/plugin.h"

namespace lockstep::app {

using support::HttpClient;

/// A run of which `serve` is a process; its model has a context of 64 tokens.
class ServedRun : public TrainCommand {
 protected:
  void SetUp() override {
    if (io::open_plugin("http").object == nullptr) GTEST_SKIP() << "cpp-httplib is not installed";
    TrainCommand::SetUp();
    ASSERT_EQ(lockstep(words("run", {"model.block_size=200", "train.max_iters=4"})).code, 0);
  }
  void start(std::vector<std::string> more = {}, const char* run = "run") {
    std::vector<std::string> all = {"serve", (folder_ / run).string(), "--port", "0", "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    server_.emplace(all, folder_ / "said", "http://127.0.0.1:([0-9]+)/v1");
  }
  HttpClient client() const { return server_->client(); }
  HttpClient::Answer ask(const std::string& path, const std::string& body, const std::string& fields = "") const {
    HttpClient one = client();
    one.post(path, body, fields);
    return one.answer();
  }
  Json completion(const std::string& body) const {
    const HttpClient::Answer answer = ask("/v1/completions", body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return Json::parse(answer.body);
  }
  static std::string text_of(const Json& answer, std::size_t choice = 0) {
    return answer.at("choices").array().at(choice).at("text").string();
  }
  double metric(const std::string& name) const {
    HttpClient one = client();
    one.send("GET /metrics HTTP/1.1\r\n\r\n");
    const std::string text = one.answer().body;
    const std::size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::atof(text.c_str() + at + name.size() + 2);
  }
  std::optional<ServerProcess> server_;
};

}  // namespace lockstep::app
