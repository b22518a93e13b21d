#include "io/http/get.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "base/number_text.h"
#include "base/text/lower.h"
#include "base/text/trimmed.h"
#include "base/text/visible.h"
#include "io/child.h"

namespace lockstep::io::http {
namespace {

constexpr int most_redirects = 10;
constexpr std::int64_t most_connect_seconds = 20;
constexpr std::size_t most_head_bytes = std::size_t{256} << 10, most_unread_bytes = std::size_t{1} << 20;
constexpr double no_end = 1e8;  // seconds: curl watches the time
constexpr std::string_view redirect_mark = "redirect to ";

// A line of curl's configuration.
std::string setting(std::string_view name, std::string_view value) {
  std::string quoted;
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return fmt::format("{} = \"{}\"\n", name, quoted);
}

void demand_url(std::string_view url) {
  const bool good = (url.starts_with("https://") || url.starts_with("http://")) &&
                    std::ranges::all_of(url, [](char c) { return c > ' ' && c != 0x7F; });
  if (!good) throw UserError(fmt::format("{}: no URL of http or https", visible(shown_url(url))), "write https://HOST");
}

std::string configuration(const Request& request, std::string_view url, bool trusted) {
  std::string text = fmt::format(
      "silent\nshow-error\ninclude\ngloboff\nsuppress-connect-headers\nconnect-timeout = {}\nspeed-limit = 1\nspeed-time = {}\n",
      std::min(request.patience, most_connect_seconds), request.patience);
  text += setting("url", url) + setting("proto", "=http,https") + setting("user-agent", request.agent);
  text += fmt::format("write-out = \"%{{stderr}}\\n{}%{{redirect_url}}\\n\"\n", redirect_mark);
  if (request.offset > 0) text += setting("range", fmt::format("{}-", request.offset));
  if (trusted && !request.token.empty()) text += setting("header", "Authorization: Bearer " + request.token);
  return text;
}

// Exit codes of curl: what may pass by itself, and what lies between this machine and a server.
constexpr std::array<int, 7> broken_codes = {16, 18, 28, 52, 55, 56, 92};
constexpr std::array<int, 4> network_codes = {5, 6, 7, 97};
constexpr std::array<int, 5> trust_codes = {35, 51, 58, 60, 77};

[[noreturn]] void throw_curl_fault(std::string_view url, const ChildOutcome& outcome) {
  std::string_view said = outcome.err;
  said = said.substr(0, said.find(fmt::format("\n{}", redirect_mark)));
  const std::string message =
      fmt::format("cannot get {}: {}", visible(shown_url(url)),
                  trimmed(said).empty() ? fmt::format("curl ended with {}", outcome.status) : visible(trimmed(said)));
  const auto is_one_of = [&](const auto& codes) { return std::ranges::find(codes, outcome.status) != codes.end(); };
  if (is_one_of(broken_codes)) throw Broken(message, "run the command again: it goes on where it stopped");
  throw UserError(
      message, is_one_of(network_codes) ? "is there a network? Check the name of the host, and https_proxy where there is a proxy"
               : is_one_of(trust_codes) ? "check this machine's clock, its certificates (the package ca-certificates), and "
                                          "https_proxy"
                                        : "try again; `man curl` has the meaning of the number");
}

// Where an answer redirects to; empty: nowhere.
std::string redirect_of(const Head& head, std::string_view err) {
  const std::size_t at = err.find(redirect_mark);
  if (head.status < 300 || head.status >= 400 || at == err.npos) return {};
  const std::string_view behind = err.substr(at + redirect_mark.size());
  return std::string(behind.substr(0, behind.find('\n')));
}

// One answer; the URL that it redirects to, or nothing.
std::string ask(const Request& request, std::string_view url, bool trusted, const Begin& begin, const Take& take) {
  HeadReader reader;
  bool headed = false, wanted = false;
  std::size_t unread = 0;
  const auto take_piece = [&](std::string_view piece) {
    if (!headed) {
      headed = reader.read(piece);
      if (!headed) return;
      const int status = reader.head().status;
      const bool redirects = status >= 300 && status < 400 && reader.head().find("location") != nullptr;
      wanted = !redirects && begin(reader.head());
    }
    if (wanted) return take(piece);
    unread += piece.size();
    if (unread > most_unread_bytes)
      throw UserError(fmt::format("{} answers {} without an end", visible(shown_url(url)), reader.head().status),
                      "the server is at fault: try later, or another one");
  };
  const std::string input = configuration(request, url, trusted);
  const ChildOutcome outcome = run_child({"curl", "-q", "--config", "-"}, no_end, {.input = input, .out = take_piece});
  if (outcome.start_error != 0) {
    throw UserError(fmt::format("cannot get {}: the program curl cannot be run ({})", visible(shown_url(url)),
                                std::generic_category().message(outcome.start_error)),
                    "install curl (Debian: apt install curl)");
  }
  if (outcome.status != 0) throw_curl_fault(url, outcome);
  if (!headed) throw Broken(fmt::format("{} answered nothing", visible(shown_url(url))), "run the command again");
  return redirect_of(reader.head(), outcome.err);
}

}  // namespace

const std::string* Head::find(std::string_view name) const {
  const auto found = std::ranges::find(fields, name, [](const auto& field) { return std::string_view(field.first); });
  return found == fields.end() ? nullptr : &found->second;
}

void HeadReader::take_line(std::string_view line) {
  const auto refuse = [&] {
    throw UserError(fmt::format("the answer is not HTTP: {}", visible(line.substr(0, 80))), "check the host and the port");
  };
  if (head_.status == 0) {
    const std::string_view status = line.substr(std::min(line.find(' ') + 1, line.size()));
    head_.status = number_from<int>(status.substr(0, 3)).value_or(0);
    if (!line.starts_with("HTTP/") || head_.status < 100) refuse();
  } else if (!line.empty()) {
    const std::size_t colon = line.find(':');
    if (colon != line.npos) head_.fields.emplace_back(lower(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
  } else if (head_.status < 200) {
    head_ = {};
  } else {
    complete_ = true;
  }
}

bool HeadReader::read(std::string_view& piece) {
  while (!complete_ && !piece.empty()) {
    const std::size_t end = piece.find('\n'), length = end == piece.npos ? piece.size() : end + 1;
    line_ += piece.substr(0, length);
    piece.remove_prefix(length);
    bytes_ += length;
    if (bytes_ > most_head_bytes) throw UserError("the answer has no end of its head", "check the host and the port");
    if (end == piece.npos && !line_.ends_with('\n')) break;
    line_.pop_back();
    take_line(trimmed(line_));
    line_.clear();
  }
  return complete_;
}

std::string server_of(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == url.npos) return {};
  return lower(url.substr(0, url.find_first_of("/?#", scheme + 3)));
}

std::string shown_url(std::string_view url) {
  url = url.substr(0, url.find_first_of("?#"));
  const std::size_t host = url.find("://") == url.npos ? 0 : url.find("://") + 3,
                    path = std::min(url.find('/', host), url.size());
  const std::size_t user = url.substr(0, path).rfind('@');
  return user == url.npos || user < host ? std::string(url) : fmt::format("{}{}", url.substr(0, host), url.substr(user + 1));
}

void get(const Request& request, const Begin& begin, const Take& take) {
  const std::string own = server_of(request.url);
  std::string url = request.url;
  bool trusted = true;
  for (int i = 0; i <= most_redirects; ++i) {
    demand_url(url);
    trusted = trusted && server_of(url) == own;
    const std::string next = ask(request, url, trusted, begin, take);
    if (next.empty()) return;
    if (own.starts_with("https:") && !next.starts_with("https:")) {
      throw UserError(
          fmt::format("{} redirects to {}, which is not encrypted", visible(shown_url(url)), visible(shown_url(next))),
          "the server is at fault: name another one");
    }
    url = next;
  }
  throw UserError(fmt::format("{} redirects more than {} times", visible(shown_url(request.url)), most_redirects),
                  "the server is at fault: check its address, or name another one");
}

}  // namespace lockstep::io::http
