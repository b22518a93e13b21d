#pragma once

// A template cut into the tokens of its tags and the text between them, with the white space that tags take away. The rules are
// those of transformers' environment: trim_blocks, lstrip_blocks, and no newline at the end.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data::jinja {

enum class TokenKind : std::uint8_t {
  data,
  print_begin,
  print_end,
  block_begin,
  block_end,
  name,
  text,
  integer,
  real,
  symbol,
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text = {};
  std::size_t at = 0;  ///< its byte in the source
  std::int64_t integer = 0;
  double real = 0;
};

/// The source that places refer to: it has one kind of line breaks, and none at its end.
std::string normal_source(std::string_view source);

/// The tokens of a normal source, an `end` last; throws UserError with the place of what cannot be one.
std::vector<Token> tokens_of(std::string_view source);

/// Throws UserError: "line L, column C: `what`".
[[noreturn]] void refuse_at(std::string_view source, std::size_t at, const std::string& what, const std::string& remedy = "");

}  // namespace lockstep::data::jinja
