// A server of HTTP as clients meet it, those who mean well and others.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/http/server.h"
#include "io/plugin.h"
#include "support/http_client.h"
#include "support/patience.h"

namespace lockstep::io::http {
namespace {

using support::HttpClient;

/// Answers with what it was asked.
ServedAnswer echo(const ServedRequest& request) {
  if (request.refused != 0) return {.status = request.refused, .type = "text/plain", .body = "refused"};
  const std::string* field = request.find("x-FIELD");
  return {.type = "text/plain",
          .body = request.method + " " + request.path + " " + (field == nullptr ? "-" : *field) + " " + request.body};
}

class HttpServer : public testing::Test {
 protected:
  void SetUp() override {
    if (open_plugin("http").object == nullptr) GTEST_SKIP() << "cpp-httplib is not installed: " << open_plugin("http").problem;
  }
  void serve(const ServerLimits& limits, Server::Handler handler = echo) {
    server_ = open_server("127.0.0.1", 0, limits, std::move(handler));
    thread_ = std::jthread([this] { server_->run(); });
  }
  /// Answers as echo() does, but says that it was asked and waits until it may.
  Server::Handler waits() {
    return [this](const ServedRequest& request) {
      asked_ = true;
      while (!open_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return echo(request);
    };
  }
  HttpClient client() const { return HttpClient(server_->port()); }
  void TearDown() override {
    open_ = true;
    if (server_) server_->stop();
  }
  std::atomic<bool> asked_ = false, open_ = false;
  std::unique_ptr<Server> server_;
  std::jthread thread_;
};

constexpr const char* get = "GET /a?b=c HTTP/1.1\r\nHost: x\r\nX-Field: f\r\n\r\n";

TEST_F(HttpServer, AnswersSeveralRequestsOfAConnection) {
  serve({});
  HttpClient one = client();
  for (int i = 0; i < 3; ++i) {
    one.send(get);
    EXPECT_EQ(one.answer().body, "GET /a f ");
  }
  one.send("POST /b HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody");
  EXPECT_EQ(one.answer().body, "POST /b - body");
  one.send("POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n");
  EXPECT_EQ(one.answer().body, "POST /c - body");
  one.send("GET /d HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(one.answer().body, "GET /d - ");
  EXPECT_TRUE(one.ended());
}

TEST_F(HttpServer, RefusesWhatIsNoRequestAndEndsTheConnection) {
  serve({.body_bytes = 1000});
  for (const char* request : {"nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\r\n\r\n"}) {
    HttpClient one = client();
    one.send(request);
    EXPECT_EQ(one.answer().status, 400) << request;
    EXPECT_TRUE(one.ended());
  }
  HttpClient long_path = client();
  long_path.send("GET /" + std::string(20000, 'a') + " HTTP/1.1\r\n\r\n");
  EXPECT_EQ(long_path.answer().status, 414);
  HttpClient path = client();  // which a matcher of regular expressions would take a deep stack for
  path.send("GET /" + std::string(8000, 'a') + " HTTP/1.1\r\n\r\n");
  EXPECT_EQ(path.answer().status, 200);
}

TEST_F(HttpServer, RefusesABodyThatIsTooLarge) {
  serve({.body_bytes = 1000, .request_seconds = 5});
  HttpClient said = client();
  said.send("POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n" + std::string(1001, 'x'));
  EXPECT_EQ(said.answer().status, 413);
  EXPECT_TRUE(said.ended());
  HttpClient chunked = client();
  chunked.send("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 20; ++i) chunked.send("4000\r\n" + std::string(0x4000, 'x') + "\r\n");
  EXPECT_EQ(chunked.answer().status, 413);
  // A packed one is not unpacked.
  HttpClient packed = client();
  packed.send("POST / HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_EQ(packed.answer().body, "POST / - abc");
}

TEST_F(HttpServer, ARequestHasToComeInTime) {
  serve({.request_seconds = 0.3});
  HttpClient slow = client();
  std::jthread drip([&](const std::stop_token& stop) {
    for (int i = 0; i < 100 && !stop.stop_requested(); ++i) {
      slow.send(i == 0 ? "GET / HTTP/1.1\r\nA: " : "a");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  EXPECT_EQ(slow.answer().status, 400);
}

TEST_F(HttpServer, RefusesMoreConnectionsThanWait) {
  serve({.connections = 1, .waiting = 1, .busy_body = "busy"}, waits());
  HttpClient served = client();
  served.send(get);
  ASSERT_TRUE(support::comes_true([&] { return asked_.load(); }));
  HttpClient waiting = client();
  waiting.send(get);
  HttpClient::Answer refused;
  EXPECT_TRUE(support::comes_true([&] {  // once the others have been taken
    HttpClient other = client();
    other.send(get);
    refused = other.answer(0.05);
    return refused.status != 0;
  }));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.body, "busy");
  open_ = true;
  EXPECT_EQ(served.answer().status, 200);
  served.close();
  EXPECT_EQ(waiting.answer().status, 200);
}

TEST_F(HttpServer, StreamsUntilNobodyTakesIt) {
  std::atomic<int> puts = 0;
  std::atomic<bool> left = false;
  serve({}, [&](const ServedRequest&) {
    return ServedAnswer{.type = "text/event-stream", .stream = [&](const ServedAnswer::Put& put) {
                          for (int i = 0; i < 3 || left; ++i) {
                            ++puts;
                            if (!put("piece\n")) return;
                            if (left) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                          }
                          left = false;
                        }};
  });
  HttpClient one = client();
  one.send(get);
  EXPECT_EQ(one.answer().body, "piece\npiece\npiece\n");
  left = true;
  HttpClient gone = client();
  gone.send(get);
  EXPECT_TRUE(support::comes_true([&] { return puts > 5; }));
  gone.close();
  int last = -1;
  EXPECT_TRUE(support::comes_true([&] { return std::exchange(last, puts.load()) == puts; }, std::chrono::milliseconds(20)));
  left = false;
}

// A client may close its side when it has asked, and read on.
TEST_F(HttpServer, TellsWhoHasGoneFromWhoHasAskedAll) {
  std::atomic<int> found_gone = 0;
  serve({}, [&](const ServedRequest& request) {
    for (int i = 0; i < 200; ++i) {
      if (request.gone()) {
        ++found_gone;
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(request.path == "/short" ? 1 : 10));
    }
    return echo(request);
  });
  HttpClient half = client();
  half.send("GET /short HTTP/1.1\r\n\r\n");
  half.close_writing();
  const HttpClient::Answer answer = half.answer();
  EXPECT_EQ(answer.body, "GET /short - ");
  EXPECT_EQ(found_gone, 0);
  {
    HttpClient gone = client();
    gone.send("GET /long HTTP/1.1\r\n\r\n");
  }
  EXPECT_TRUE(support::comes_true([&] { return found_gone == 1; }));
}

TEST_F(HttpServer, StopsWhenWhatHadComeIsAnswered) {
  std::atomic<bool> asked = false;
  serve({}, [&](const ServedRequest& request) {
    asked = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return echo(request);
  });
  HttpClient one = client(), idle = client();
  one.send(get);
  EXPECT_TRUE(support::comes_true([&] { return asked.load(); }));
  server_->stop();
  EXPECT_EQ(one.answer().status, 200);
  thread_.join();
  EXPECT_TRUE(idle.ended());
}

TEST_F(HttpServer, SilentConnectionsHoldNoThread) {
  serve({.connections = 1, .waiting = 2, .idle_seconds = 300});
  HttpClient first = client(), silent = client(), second = client();
  for (int i = 0; i < 3; ++i) {
    for (HttpClient* one : {&first, &second}) {
      one->send(get);
      EXPECT_EQ(one->answer().status, 200);
    }
  }
  HttpClient third = client();  // more are kept than is allowed: the oldest, which is the silent one, is closed
  third.send(get);
  EXPECT_EQ(third.answer().status, 200);
  EXPECT_TRUE(silent.ended());
  first.send(get);
  EXPECT_EQ(first.answer().status, 200);
}

TEST_F(HttpServer, RequestsOfWhichAPartHasComeHoldNoThread) {
  serve({.connections = 1, .waiting = 20, .request_seconds = 300});
  std::vector<HttpClient> slow;
  for (int i = 0; i < 9; ++i) {
    slow.push_back(client());
    slow.back().send(i % 3 == 0 ? "G" : i % 3 == 1 ? "GET / HTTP/1.1\r\nA: " : "POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nbo");
  }
  HttpClient good = client();
  for (int i = 0; i < 3; ++i) {
    good.send(get);
    EXPECT_EQ(good.answer().status, 200);
  }
  slow[2].send("dy");
  EXPECT_EQ(slow[2].answer().body, "POST / - body");
}

// A thread that saw each of them off would be busy for longer than the last one waits.
TEST_F(HttpServer, ConnectionsThatPartHoldNoThread) {
  serve({.connections = 1, .waiting = 100});
  std::vector<HttpClient> refused;
  for (int i = 0; i < 80; ++i) {
    refused.push_back(client());
    refused.back().send("nonsense\r\n\r\n");
  }
  HttpClient good = client();
  good.send(get);
  EXPECT_EQ(good.answer().status, 200);
  for (HttpClient& one : refused) EXPECT_EQ(one.answer().status, 400);
}

TEST_F(HttpServer, HalvesOfLargeRequestsDoNotFillTheMemory) {
  serve({.connections = 100, .body_bytes = 1 << 20, .request_seconds = 300});
  const std::string half = "POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + std::string(900000, 'x');
  std::vector<HttpClient> slow;
  for (int i = 0; i < 30; ++i) {
    slow.push_back(client());
    slow.back().send(half);
  }
  const auto open = [&] { return std::ranges::count_if(slow, [](HttpClient& one) { return !one.ended(0.01); }); };
  EXPECT_TRUE(support::comes_true([&] { return open() <= 18; })) << open();
  HttpClient good = client();
  good.send("POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody");
  EXPECT_EQ(good.answer().body, "POST / - body");
}

TEST_F(HttpServer, ReadsRequestsThatComeTogether) {
  serve({.connections = 1});
  HttpClient one = client();
  one.send("POST /a HTTP/1.1\r\nContent-Length: 1\r\n\r\n1POST /b HTTP/1.1\r\nContent-Length: 2\r\n\r\n22GET /c HTTP");
  EXPECT_EQ(one.answer().body, "POST /a - 1");
  EXPECT_EQ(one.answer().body, "POST /b - 22");
  one.send("/1.1\r\n\r\n");
  EXPECT_EQ(one.answer().body, "GET /c - ");
}

TEST_F(HttpServer, TellsAClientThatWaitsToGoOn) {
  serve({});
  HttpClient one = client();
  one.send("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  EXPECT_EQ(one.text_to("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  one.send("body");
  EXPECT_TRUE(one.text_to("\r\n").starts_with("HTTP/1.1 200 "));
}

TEST_F(HttpServer, ASilentConnectionIsClosedInTime) {
  serve({.idle_seconds = 0.1});
  HttpClient one = client();
  one.send(get);
  EXPECT_EQ(one.answer().status, 200);
  EXPECT_TRUE(one.ended());
}

TEST_F(HttpServer, WhoConnectsWhileItEndsIsToldAtOnce) {
  serve({}, waits());
  HttpClient one = client();
  one.send(get);
  EXPECT_TRUE(support::comes_true([&] { return asked_.load(); }));
  server_->stop();
  EXPECT_TRUE(support::comes_true([&] { return !HttpClient::listens(server_->port()); }));
  open_ = true;
  EXPECT_EQ(one.answer().status, 200);
}

// Who stands between a client and this would read another request than this does.
TEST_F(HttpServer, RefusesARequestWhoseEndIsNotPlain) {
  serve({});
  const std::string inner = "GET /smuggled HTTP/1.1\r\n\r\n", size = std::to_string(inner.size());
  for (const std::string& fields : std::vector<std::string>{
           "GET / HTTP/1.1\r\nContent-Length: " + size, "HEAD / HTTP/1.1\r\nContent-Length: " + size,
           "OPTIONS / HTTP/1.1\r\nTransfer-Encoding: chunked", "POST / HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: " + size,
           "POST / HTTP/1.1\r\nContent-Length: 0\r\nTransfer-Encoding: chunked", "POST / HTTP/1.1\r\nContent-Length : " + size,
           "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked", "POST / HTTP/1.1\r\nContent-Length: -1",
           "POST / HTTP/1.1\r\nContent-Length: 1x"}) {
    HttpClient one = client();
    one.send(fields + "\r\n\r\n" + inner);
    const HttpClient::Answer answer = one.answer_head();
    EXPECT_EQ(answer.status, 400) << fields;
    EXPECT_NE(answer.head.find("Connection: close\r\n"), std::string::npos) << answer.head;
    EXPECT_EQ(one.text_to("smuggled").find("smuggled"), std::string::npos) << fields;
    EXPECT_TRUE(one.ended());
  }
}

TEST_F(HttpServer, ABodyIsAsLongAsIsSaidWhateverItIs) {
  serve({});
  HttpClient one = client();
  one.send("POST /none HTTP/1.1\r\n\r\n");
  EXPECT_EQ(one.answer().body, "POST /none - ");
  const std::string form(10000, 'a');
  one.send("POST / HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 10000\r\n\r\n" + form);
  EXPECT_EQ(one.answer().body, "POST / - " + form);
  one.send("GET / HTTP/1.1\r\nRange: bytes=0-2\r\n\r\n");
  EXPECT_EQ(one.answer().body, "GET / - ");
}

TEST_F(HttpServer, AnOldClientGetsAStreamWithoutChunks) {
  serve({}, [](const ServedRequest&) {
    return ServedAnswer{.type = "text/plain", .stream = [](const ServedAnswer::Put& put) { put("one ") && put("two"); }};
  });
  HttpClient one = client();
  one.send("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
  EXPECT_EQ(one.answer_head().head.find("chunked"), std::string::npos);
  EXPECT_EQ(one.text_to("never"), "one two");
}

TEST_F(HttpServer, SaysWhyItCannotListen) {
  serve({});
  const auto message = [](const std::string& address, int port) {
    try {
      open_server(address, port, {}, echo);
    } catch (const UserError& error) {
      return error.problems().front().message;
    }
    return std::string();
  };
  const std::string taken = message("127.0.0.1", server_->port());
  EXPECT_NE(taken.find("cannot listen at 127.0.0.1:"), std::string::npos) << taken;
  EXPECT_EQ(place("127.0.0.1", 80), "127.0.0.1:80");
  EXPECT_EQ(place("::1", 80), "[::1]:80");
  EXPECT_NE(message("192.0.2.1", 0).find("cannot listen at 192.0.2.1:0: "), std::string::npos);
  EXPECT_NE(message("no.such.host.invalid", 0).find("cannot listen at no.such.host.invalid: "), std::string::npos);
}

}  // namespace
}  // namespace lockstep::io::http
