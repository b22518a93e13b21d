#include "data/prepare/encoded_part.h"

#include <algorithm>
#include <optional>

#include "data/chat/taught_tokens.h"

namespace lockstep::data {

void EncodedPart::clear() {
  count_ = text_bytes_ = 0;
  mask_.clear();
  documents_.clear();
  unknown_.clear();
}

void EncodedPart::add_text(const Tokenizer& tokenizer, std::string_view text, bool goes_on) {
  if (!goes_on && !text.empty()) begin_text(tokenizer, true);
  add(tokenizer, text, true, goes_on);
}

void EncodedPart::begin_text(const Tokenizer& tokenizer, bool taught) {
  for (const std::int32_t id : tokenizer.begin_of_text()) append(id, taught);
}

void EncodedPart::append(std::int32_t id, bool taught) {
  if (ids_.size() == count_) ids_.resize(count_ + 1);
  ids_[count_++] = id;
  mask_.resize(count_, taught ? 1 : 0);
}

void EncodedPart::add(const Tokenizer& tokenizer, std::string_view text, bool taught, bool goes_on) {
  if (const std::size_t room = count_ + tokenizer.room(text.size()); ids_.size() < room) ids_.resize(room);
  count_ += tokenizer.encode(text, std::span(ids_).subspan(count_), unknown_, goes_on);
  mask_.resize(count_, taught ? 1 : 0);
  if (taught) text_bytes_ += text.size();
}

void EncodedPart::add(const Tokenizer& tokenizer, const Document& document, bool prompts) {
  const std::size_t before = count_;
  if (document.taught) {
    add_conversation(tokenizer, document.text, *document.taught);
  } else {
    add_plain(tokenizer, document, prompts);
  }
  documents_.push_back(static_cast<std::int64_t>(count_ - before));
}

void EncodedPart::add_plain(const Tokenizer& tokenizer, const Document& document, bool prompts) {
  const std::size_t begin = count_;
  begin_text(tokenizer, prompts || document.prompt.empty());
  add(tokenizer, document.prompt, prompts, false);
  add(tokenizer, document.text, true, !document.prompt.empty());
  take_double_begin(tokenizer, begin);
  // As trl asks it (trainer/sft_trainer.py, add_eos).
  const bool ended = !document.text.empty() && count_ > begin && tokenizer.end_of_text() == ids().back();
  if (!ended) end_document(tokenizer, true);
}

// Some texts have in them what the tokenizer puts before each.
void EncodedPart::take_double_begin(const Tokenizer& tokenizer, std::size_t begin) {
  const std::span<const std::int32_t> front = tokenizer.begin_of_text(), made = ids().subspan(begin + front.size());
  if (front.empty() || made.size() < front.size() || !std::ranges::equal(made.first(front.size()), front)) return;
  std::ranges::copy(made, ids_.begin() + static_cast<std::ptrdiff_t>(begin));
  count_ -= front.size();
  mask_.erase(mask_.begin() + static_cast<std::ptrdiff_t>(begin),
              mask_.begin() + static_cast<std::ptrdiff_t>(begin + front.size()));
}

void EncodedPart::add_conversation(const Tokenizer& tokenizer, std::string_view text, std::span<const Taught> taught) {
  const std::size_t begin = count_;
  add(tokenizer, text, false, false);
  mark_taught(tokenizer, text, taught, ids().subspan(begin), std::span(mask_).subspan(begin));
  for (const Taught& part : taught) text_bytes_ += part.end - part.begin;
  const std::span<const std::int32_t> added = ids().subspan(begin);
  if (const auto end = tokenizer.end_of_text(); end && !added.empty())
    ends_inside_ = ends_inside_ || std::ranges::find(added.first(added.size() - 1), *end) != added.end() - 1;
  if (added.empty() || added.back() != document_end(tokenizer)) end_document(tokenizer, false);
}

void EncodedPart::end_document(const Tokenizer& tokenizer, bool taught) {
  const std::optional<std::int32_t> end = tokenizer.end_of_text();
  if (!end) return add(tokenizer, "\n", taught, true);
  append(*end, taught);
}

void EncodedPart::pack(const TokenFormat& format) { data::pack(ids(), format, packed_); }

void EncodedPart::append_to(TokenWriter& writer) const {
  writer.append(packed_, static_cast<std::int64_t>(count_), text_bytes_, mask_);
}

}  // namespace lockstep::data
