#pragma once

// Answers of HTTP servers, by the installed curl: proxies, certificates and protocols are its own. Redirects are followed here,
// so that a token stays with the server that it is for.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace lockstep::io::http {

struct Request {
  std::string url;             ///< http: or https:
  std::string token = {};      ///< for the server of `url` alone, not for one that it redirects to
  std::uint64_t offset = 0;    ///< of the first byte that is asked for
  std::int64_t patience = 60;  ///< seconds without a byte, after which the request fails
  std::string agent = {};      ///< who asks
};

/// The head of an answer, which stands before its body.
struct Head {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields = {};  ///< names in lower case
  /// The value of a field, or null.
  const std::string* find(std::string_view name) const;
};

/// A connection broke, the server was silent, or it reported trouble of its own. The same request may succeed later.
class Broken : public UserError {
 public:
  using UserError::UserError;
};

/// Gets the head of the answer behind all redirects. Returning false means that the body is not wanted. An exception ends the
/// request.
using Begin = std::function<bool(const Head& head)>;
using Take = std::function<void(std::string_view piece)>;

/// Asks, and hands over the answer. Throws Broken where a later request may succeed. Throws UserError where curl or the network
/// is missing, the host is unknown, the server is not trusted or redirects do not end.
void get(const Request& request, const Begin& begin, const Take& take);

/// Reads the heads in front of a body, piece by piece.
class HeadReader {
 public:
  /// False until a head other than of status 1xx is complete. Then `piece` is what follows it. Throws UserError for what is no
  /// head.
  bool read(std::string_view& piece);
  const Head& head() const { return head_; }

 private:
  void take_line(std::string_view line);
  Head head_;
  std::string line_;
  std::size_t bytes_ = 0;
  bool complete_ = false;
};

/// "https://host:port" of a URL, in lower case.
std::string server_of(std::string_view url);
/// The URL as messages show it: without a user name, a password and what stands behind a "?", which may be secrets.
std::string shown_url(std::string_view url);

}  // namespace lockstep::io::http
