#pragma once

// The tokens of a part of a text between the tokenizer and their file, with what each of them teaches.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/prepare/token_writer.h"
#include "data/tokenizer.h"

namespace lockstep::data {

/// Memory grows and is used again.
class EncodedPart {
 public:
  void clear();
  /// Appends the tokens of `text`; `goes_on`: of the rest of a text.
  void add(const Tokenizer& tokenizer, std::string_view text, bool taught, bool goes_on);
  /// Appends what ends a document: the tokenizer's end of a text, or a line feed where it has none. It is taught.
  void end_document(const Tokenizer& tokenizer);
  /// The characters since clear() that the vocabulary does not have.
  const std::string& unknown() const { return unknown_; }

  /// Makes what append_to() writes.
  void pack(const TokenFormat& format);
  void append_to(TokenWriter& writer) const;

 private:
  std::size_t count_ = 0;
  std::size_t text_bytes_ = 0;      // of what is taught
  std::vector<std::int32_t> ids_;   // the first count_
  std::vector<std::uint8_t> mask_;  // count_ of them
  std::string unknown_;
  std::vector<std::byte> packed_;
};

}  // namespace lockstep::data
