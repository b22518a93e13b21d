#pragma once

// The tokens of a part of a text between the tokenizer and their file, with what each of them teaches.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/prepare/token_writer.h"
#include "data/text/documents.h"
#include "data/tokenizer.h"

namespace lockstep::data {

/// Memory grows and is used again.
class EncodedPart {
 public:
  void clear();
  /// Appends the tokens of a text, all taught, behind those that a text begins with; `goes_on`: of the rest of one.
  void add_text(const Tokenizer& tokenizer, std::string_view text, bool goes_on);
  /// Appends the tokens of a document, between what begins and what ends it. The end is the tokenizer's end of a text, or a line
  /// feed where it has none, and is taught. What a text has of both itself is not put there again. A conversation's template
  /// begins it itself, and may end it. `prompts`: they are taught, too.
  void add(const Tokenizer& tokenizer, const Document& document, bool prompts);
  /// The characters since clear() that the vocabulary does not have.
  const std::string& unknown() const { return unknown_; }

  std::span<const std::int32_t> ids() const { return std::span(ids_).first(count_); }
  /// 1: a token is taught.
  std::span<const std::uint8_t> mask() const { return mask_; }

  /// Tokens of each document.
  std::span<const std::int64_t> documents() const { return documents_; }

  /// Whether some conversation ever added has the end of a text inside.
  bool ends_inside() const { return ends_inside_; }

  /// Makes what append_to() writes.
  void pack(const TokenFormat& format);
  void append_to(TokenWriter& writer) const;

 private:
  void add(const Tokenizer& tokenizer, std::string_view text, bool taught, bool goes_on);
  void add_plain(const Tokenizer& tokenizer, const Document& document, bool prompts);
  void begin_text(const Tokenizer& tokenizer, bool taught);
  void take_double_begin(const Tokenizer& tokenizer, std::size_t begin);
  void add_conversation(const Tokenizer& tokenizer, std::string_view text, std::span<const Taught> taught);
  void end_document(const Tokenizer& tokenizer, bool taught);
  void append(std::int32_t id, bool taught);

  std::size_t count_ = 0;
  std::size_t text_bytes_ = 0;      // bytes of the text that is taught
  std::vector<std::int32_t> ids_;   // the first count_ are in use
  std::vector<std::uint8_t> mask_;  // the first count_ are in use
  std::vector<std::int64_t> documents_;
  std::string unknown_;
  bool ends_inside_ = false;
  std::vector<std::byte> packed_;
};

}  // namespace lockstep::data
