#include "data/text/list_rows.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace lockstep::data {
namespace {

class ListRows final : public io::ByteStream {
 public:
  ListRows(std::unique_ptr<io::ByteStream> stream, std::string name) : stream_(std::move(stream)), name_(std::move(name)) {}

  // Each byte becomes one or none, so they are changed in place.
  std::size_t read(std::span<std::byte> out) override {
    std::size_t made = 0;
    while (made == 0) {
      const std::size_t count = stream_->read(out);
      if (count == 0) {
        if (!ended_) refuse("the list has no end");
        return 0;
      }
      for (const std::byte byte : out.first(count)) {
        if (const std::optional<char> c = next(static_cast<char>(byte))) out[made++] = static_cast<std::byte>(*c);
      }
    }
    return made;
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw UserError(fmt::format("{}, row {}: {}", name_, row_, what), "mend the list, or take another copy of the file");
  }

  std::optional<char> next(char c) {
    if (depth_ == 0) return outside(c);
    if (in_string_) {
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
    } else if (depth_ == 1 && (c == ',' || c == ']')) {
      return behind_row(c);
    } else {
      empty_ = empty_ && is_blank(c);
      in_string_ = c == '"';
      if (c == '[' || c == '{') ++depth_;
      if ((c == ']' || c == '}') && --depth_ == 0) refuse("the list is closed by }");
    }
    return c == '\n' ? '\r' : c;  // blank between values, and refused within a string as the other is
  }

  std::optional<char> outside(char c) {
    if (ended_ && !is_blank(c)) refuse("something follows the end of the list");
    if (!ended_ && c == '[') depth_ = 1;
    return std::nullopt;
  }

  char behind_row(char c) {
    if (empty_ && (c == ',' || row_ > 1)) refuse("it is empty");
    empty_ = true;
    ended_ = c == ']';
    if (ended_) depth_ = 0;
    if (!ended_) ++row_;
    return '\n';
  }

  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

  std::unique_ptr<io::ByteStream> stream_;
  std::string name_;
  std::int64_t depth_ = 0, row_ = 1;
  bool in_string_ = false, escaped_ = false;
  bool empty_ = true;  // the row, up to here
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<io::ByteStream> rows_of_list(std::unique_ptr<io::ByteStream> stream, std::string name) {
  return std::make_unique<ListRows>(std::move(stream), std::move(name));
}

}  // namespace lockstep::data
