// The page of runs that go on, as a browser meets it.

#include <fmt/format.h>

#include <optional>

#include "app/report/report_page.h"
#include "app/server_process.h"
#include "app/train_command.h"
#include "io/plugin.h"

namespace lockstep::app {
namespace {

using support::HttpClient;

class Watch : public TrainCommand {
 protected:
  void SetUp() override {
    if (io::open_plugin("http").object == nullptr) GTEST_SKIP() << "cpp-httplib is not installed";
    TrainCommand::SetUp();
  }
  std::string run(const std::string& name) const { return (folder_ / name).string(); }
  void start(std::vector<std::string> words) {
    words.insert(words.begin(), {"watch", "--port", "0"});
    server_.emplace(words, folder_ / "said", "http://127.0.0.1:([0-9]+)/");
  }
  HttpClient::Answer get(const std::string& path, const std::string& method = "GET") const {
    HttpClient one = server_->client();
    one.send(method + " " + path + " HTTP/1.1\r\n\r\n");
    return one.answer();
  }
  HttpClient events() const {
    HttpClient one = server_->client();
    one.send("GET /events HTTP/1.1\r\n\r\n");
    EXPECT_NE(one.answer_head().head.find("text/event-stream"), std::string::npos);
    return one;
  }
  static bool says(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
  /// Whether an event says so, sooner or later.
  static bool hears(HttpClient& events, const std::string& part) { return says(events.text_to(part), part); }
  std::optional<ServerProcess> server_;
};

TEST_F(Watch, FollowsRuns) {
  ASSERT_EQ(lockstep(words("one")).code, 0);
  start({run("one"), run("two")});
  const HttpClient::Answer page = get("/");
  EXPECT_EQ(page.status, 200);
  for (const char* field :
       {"Content-Type: text/html; charset=utf-8", "Content-Security-Policy: default-src 'none'; script-src 'sha256-",
        "X-Content-Type-Options: nosniff", "Cache-Control: no-store"})
    EXPECT_TRUE(says(page.head, field)) << page.head;
  EXPECT_TRUE(says(page.body, "one: has ended, step 8 of 8")) << page.body;
  EXPECT_TRUE(says(page.body, run("two") + ": no run's folder"));
  EXPECT_TRUE(says(page.body, "<h2>Samples</h2>"));
  EXPECT_TRUE(says(page.body, report_script));
  HttpClient reader = events();
  EXPECT_TRUE(hears(reader, "one: has ended, step 8 of 8"));
  ASSERT_EQ(lockstep(words("two")).code, 0);
  EXPECT_TRUE(hears(reader, "two: has ended, step 8 of 8"));
  std::filesystem::remove_all(folder_ / "one");
  EXPECT_TRUE(hears(reader, run("one") + ": no run's folder"));
  io::replace_file(folder_ / "two/metrics.jsonl", "{\n");
  EXPECT_TRUE(hears(reader, "two/metrics.jsonl, line 1"));
}

TEST_F(Watch, WhatIsLostToALateRankIsSaidOfTheRun) {
  ASSERT_EQ(lockstep(words("one")).code, 0);
  std::string metrics = file("one/metrics.jsonl");
  metrics.insert(metrics.rfind("{\"step\":") + 1, R"("late_rank":1,"lost_seconds":1e-6,)");
  io::replace_file(folder_ / "one/metrics.jsonl", metrics);
  start({run("one")});
  EXPECT_TRUE(says(get("/").body, "one: has ended, step 8 of 8, 1 us of it lost to rank 1")) << get("/").body;
}

TEST_F(Watch, TextOfARunIsNoMarkup) {
  const std::string name = "a<b>&\"c", evil = "</script><script>alert(1)</script>\r\n\r\nevent: x\r\"'<img src=x>";
  ASSERT_EQ(lockstep(words("plain")).code, 0);
  std::filesystem::rename(folder_ / "plain", folder_ / name);
  io::replace_file(folder_ / name / "samples.jsonl",
                   Json(Json::Object{{"step", 8}, {"text", evil}, {"run", evil}}).dump() + "\n");
  start({run(name), run("<script>alert(2)</script>")});
  HttpClient reader = events();
  const std::string event = reader.text_to("\n\n");
  for (const std::string& text : {get("/").body, event}) {
    EXPECT_TRUE(says(text, "&lt;img src=x&gt;")) << text;
    EXPECT_TRUE(says(text, "a&lt;b&gt;&amp;&quot;c: has ended"));
    for (const char* mark : {"<b>", "<img", "<script>a", "alert(1)</script>"}) EXPECT_FALSE(says(text, mark)) << mark;
  }
  EXPECT_FALSE(says(event, "\nevent:"));
}

TEST_F(Watch, EndsAtOnceWhateverItsReadersDo) {
  ASSERT_EQ(lockstep(words("one")).code, 0);
  start({run("one")});
  HttpClient reader = events(), silent = server_->client(), half = server_->client(), idle = server_->client();
  EXPECT_TRUE(hears(reader, "has ended"));
  half.send("GET / HT");
  idle.send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(idle.answer().status, 200);
  std::vector<HttpClient> slow;  // they take nothing, and ask for more than a connection holds
  for (int i = 0; i < 3; ++i) {
    slow.push_back(server_->client());
    for (int page = 0; page < 200; ++page) slow.back().send("GET / HTTP/1.1\r\n\r\n");
  }
  EXPECT_EQ(get("/").status, 200) << "others do not wait for them";
  server_->signal(SIGTERM);
  EXPECT_EQ(server_->end(std::chrono::seconds(10)), 0) << "a reader has 20 seconds else";
}

TEST_F(Watch, RefusesWhatItDoesNotHave) {
  start({run("none")});
  EXPECT_EQ(get("/etc/passwd").status, 404);
  EXPECT_EQ(get("/", "DELETE").status, 405);
  EXPECT_EQ(get("/", "HEAD").status, 200);
  HttpClient other = server_->client();
  other.send("nothing\r\n\r\n");
  EXPECT_EQ(other.answer().status, 400);
  std::vector<HttpClient> many;
  bool refused = false;
  for (int i = 0; i < 40 && !refused; ++i) {
    many.push_back(server_->client());
    many.back().send("GET /events HTTP/1.1\r\n\r\n");
    refused = i >= 32 && says(many.back().answer().body, "as many readers as it may");
  }
  EXPECT_TRUE(refused);
  const std::string port = std::to_string(server_->port());
  const Ended taken = run_into(STDOUT_FILENO, {"watch", run("none"), "--port", port});
  EXPECT_EQ(taken.code, kUserError);
  EXPECT_TRUE(says(taken.err, "cannot listen at 127.0.0.1:" + port)) << taken.err;
  EXPECT_TRUE(says(run_into(STDOUT_FILENO, {"watch", run("none"), "--port", "-1"}).err, "--port -1: must be from 0"));
  EXPECT_TRUE(says(run_into(STDOUT_FILENO, {"watch", folder_ / "text.txt"}).err, "text.txt is a file, and a run is a folder"));
  // `train --watch` is refused before a run begins.
  std::vector<std::string> training = words("run", {"--watch=" + port});
  const Ended begun = run_into(STDOUT_FILENO, training);
  EXPECT_EQ(begun.code, kUserError);
  EXPECT_TRUE(says(begun.err, "cannot listen at 127.0.0.1:" + port)) << begun.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  training.back() = "--watch=-3";
  EXPECT_TRUE(says(run_into(STDOUT_FILENO, training).err, "--watch=-3: must be from 0 to 65535"));
}

TEST_F(Watch, ARunShowsItselfWhileItTrains) {
  server_.emplace(
      words("run", {"train.max_iters=100000000", "optimizer.lr_decay_iters=100", "--ranks", "2", "train.threads=1", "--watch=0"}),
      folder_ / "said", "Watch: +http://127.0.0.1:([0-9]+)/");
  HttpClient reader = events();
  EXPECT_TRUE(hears(reader, "run: going on, step "));
  EXPECT_TRUE(hears(reader, "least and most of all ranks"));
  server_->signal(SIGINT);
  EXPECT_TRUE(hears(reader, "run: has ended, step "));
  EXPECT_EQ(server_->end(), 130);
}

TEST_F(Watch, ThePagesScriptFollowsInABrowser) {
  if (std::system("command -v chromium > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no chromium here";
  ASSERT_EQ(lockstep(words("one")).code, 0);
  start({run("one")});
  const std::string command = fmt::format(
      "HOME={0} timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir={0} --dump-dom "
      "http://127.0.0.1:{1}/ > {2} 2> /dev/null",
      run("home"), server_->port(), run("dom.html"));
  if (std::system(command.c_str()) != 0) GTEST_SKIP() << "chromium does not start here";
  const std::string dom = file("dom.html");
  EXPECT_TRUE(says(dom, "Connecting to lockstep.") || says(dom, "This page follows the runs.")) << dom.substr(0, 2000);
  EXPECT_TRUE(says(dom, "<div class=\"tools\">")) << "the policy lets the script run";
}

}  // namespace
}  // namespace lockstep::app
