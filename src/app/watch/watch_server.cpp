#include "app/watch/watch_server.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <string_view>
#include <utility>

#include "app/report/report_page.h"
#include "base/number_text.h"
#include "base/thread.h"
#include "base/timer.h"
#include "io/sha256.h"

namespace lockstep::app {
namespace {

using io::http::ServedAnswer;
using io::http::ServedRequest;

constexpr std::int64_t most_readers = 16;

std::string base64_of_hex(std::string_view hex) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : hex) {
    bits = bits << 4U | static_cast<std::uint32_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    for (held += 4; held >= 6; held -= 6) text += digits[bits >> static_cast<unsigned>(held - 6) & 63U];
  }
  if (held > 0) text += digits[bits << static_cast<unsigned>(6 - held) & 63U];
  while (text.size() % 4 != 0) text += '=';
  return text;
}

/// The page's own script and style, events of this server, and nothing else.
std::string policy() {
  return fmt::format(
      "default-src 'none'; script-src 'sha256-{}'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action "
      "'none'; frame-ancestors 'none'",
      base64_of_hex(io::sha256_of_text(report_script)));
}

ServedAnswer said(int status, std::string text) {
  return {.status = status, .type = "text/plain; charset=utf-8", .fields = {}, .body = std::move(text) + "\n", .stream = {}};
}

/// A line of an event ends at any line end of the text.
std::string event_of(std::string_view text) {
  std::string event = "data: ";
  for (const char c : text) event += c == '\n' || c == '\r' ? std::string("\ndata: ") : std::string(1, c);
  return event + "\n\n";
}

}  // namespace

WatchServer::WatchServer(std::vector<std::string> folders, std::string address, int port)
    : runs_(std::move(folders)),
      address_(std::move(address)),
      policy_(policy()),
      server_(io::http::open_server(address_, port,
                                    {.connections = most_readers,
                                     .waiting = most_readers,
                                     .body_bytes = 1 << 10,
                                     .drains = false,
                                     .busy_type = "text/plain",
                                     .busy_body = "this page has as many readers as it may\n"},
                                    [this](const ServedRequest& request) { return answer(request); })),
      thread_(start_thread("watch", [this](const std::stop_token&) {
        constexpr int lowest = 19;
        setpriority(PRIO_PROCESS, 0, lowest);  // on Linux this thread's, and of those that it starts
        server_->run();
      })) {}

WatchServer::~WatchServer() {
  constexpr std::chrono::milliseconds patience{300};  // with readers that take no bytes
  constexpr std::chrono::seconds busy{20};            // a machine, on which the last look takes longer
  {
    std::unique_lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, busy, [&] { return followed_ == telling_; });
    changed_.wait_for(lock, patience, [&] { return followed_ == 0; });
  }
  server_->stop();
}

std::string WatchServer::url() const { return fmt::format("http://{}/", io::http::place(address_, server_->port())); }

ServedAnswer WatchServer::answer(const ServedRequest& request) {
  ServedAnswer answer;
  if (request.refused != 0) {
    answer = said(request.refused, "this request is not understood");
  } else if (request.method != "GET" && request.method != "HEAD") {
    answer = said(405, "this page is only read: GET");
  } else if (request.path == "/") {
    answer.type = "text/html; charset=utf-8";
    answer.body = watched_page(*runs_.look().body);
  } else if (request.path == "/events") {
    answer.type = "text/event-stream";
    answer.stream = [this](const ServedAnswer::Put& put) { follow(put); };
  } else {
    answer = said(404, "there is no such path; there is /");
  }
  answer.fields = {{"Content-Security-Policy", policy_},
                   {"X-Content-Type-Options", "nosniff"},
                   {"Referrer-Policy", "no-referrer"},
                   {"Cache-Control", "no-store"}};
  return answer;
}

void WatchServer::follow(const ServedAnswer::Put& put) {
  constexpr double quiet_seconds = 5;  // after which a reader is asked whether it is there
  constexpr std::chrono::milliseconds pause{500};
  std::unique_lock lock(mutex_);
  ++followed_;
  std::uint64_t told = 0;
  double told_at = 0;
  for (bool reads = true, last = false; reads && !last;) {
    last = ending_;
    lock.unlock();
    const WatchedRuns::Seen seen = runs_.look(last);
    lock.lock();
    const bool has_news = seen.version != std::exchange(told, seen.version);
    if (has_news || now_seconds() - told_at > quiet_seconds) {
      ++telling_;
      changed_.notify_all();
      lock.unlock();
      reads = put(has_news ? event_of(*seen.body) : ":\n\n");
      told_at = now_seconds();
      lock.lock();
      --telling_;
    }
    if (reads && !last) changed_.wait_for(lock, pause, [&] { return ending_; });
  }
  --followed_;
  changed_.notify_all();
}

}  // namespace lockstep::app
