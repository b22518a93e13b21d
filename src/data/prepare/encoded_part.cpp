#include "data/prepare/encoded_part.h"

#include <optional>
#include <span>
#include <string>

namespace lockstep::data {

void EncodedPart::clear() {
  count_ = text_bytes_ = 0;
  mask_.clear();
  unknown_.clear();
}

void EncodedPart::add(const Tokenizer& tokenizer, std::string_view text, bool taught, bool goes_on) {
  if (const std::size_t room = count_ + tokenizer.room(text.size()); ids_.size() < room) ids_.resize(room);
  count_ += tokenizer.encode(text, std::span(ids_).subspan(count_), unknown_, goes_on);
  mask_.resize(count_, taught ? 1 : 0);
  if (taught) text_bytes_ += text.size();
}

void EncodedPart::end_document(const Tokenizer& tokenizer) {
  const std::optional<std::int32_t> end = tokenizer.end_of_text();
  if (!end) return add(tokenizer, "\n", true, true);
  if (ids_.size() == count_) ids_.resize(count_ + 1);
  ids_[count_++] = *end;
  mask_.resize(count_, 1);
}

void EncodedPart::pack(const TokenFormat& format) { data::pack(std::span(ids_).first(count_), format, packed_); }

void EncodedPart::append_to(TokenWriter& writer) const {
  writer.append(packed_, static_cast<std::int64_t>(count_), text_bytes_, mask_);
}

}  // namespace lockstep::data
