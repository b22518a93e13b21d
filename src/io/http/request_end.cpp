#include "io/http/request_end.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/text/lower.h"

namespace lockstep::io::http {
namespace {

constexpr std::string_view line_end = "\r\n", head_end = "\r\n\r\n";
constexpr std::size_t longest_line = 4096;  // of a chunk's size

/// A number that `text` begins with; nothing where there is none, as before "-1".
std::uint64_t number_at(std::string_view text, int base) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number, base);
  return number;
}

}  // namespace

void RequestEnd::read_head(std::string_view head) {
  const std::string fields = lower(head);
  const auto value = [&](std::string_view name) {
    const std::size_t at = fields.find(name);
    std::string_view rest = std::string_view(fields).substr(at == fields.npos ? fields.size() : at + name.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    return rest;
  };
  part_ = value("\r\ntransfer-encoding:").starts_with("chunked\r\n") ? Part::chunk : Part::body;
  if (part_ == Part::body) at_ += number_at(value("\r\ncontent-length:"), 10);
  expects_ = value("\r\nexpect:").starts_with("100-continue\r\n");
}

bool RequestEnd::reached(std::string_view came) {
  while (part_ != Part::body && at_ <= came.size()) {
    const std::string_view end = part_ == Part::head ? head_end : line_end;
    const std::size_t found = came.find(end, at_);
    if (found == came.npos) {
      if (part_ != Part::head) return came.size() - at_ > longest_line;
      at_ = came.size() - std::min(came.size(), end.size() - 1);
      return came.size() > most_head;
    }
    const std::string_view line = came.substr(at_, found - at_);
    at_ = found + end.size();
    if (part_ == Part::head) {
      read_head(came.substr(0, at_));
    } else if (part_ == Part::trailer) {
      if (line.empty()) return true;
    } else if (const std::uint64_t size = number_at(line, 16); size > 0) {
      at_ += std::min(size, body_bytes_) + line_end.size();
    } else {
      if (!line.starts_with('0')) return true;
      part_ = Part::trailer;
    }
    if (at_ > most_head + body_bytes_) return true;
  }
  return came.size() >= at_ || at_ > most_head + body_bytes_;
}

}  // namespace lockstep::io::http
