#include "data/prepare/shown_document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text/visible.h"

namespace lockstep::data {

std::string show(const ShownDocument& document, const Tokenizer& tokenizer, const Paint& paint) {
  const auto marked = [&](const std::string& text, bool taught) {
    if (!taught) return text;
    return paint.is_on() ? paint.curve(3, text) : "{+" + text + "+}";
  };
  std::string text, numbers;
  for (std::size_t begin = 0, end = 0; begin < document.ids.size(); begin = end) {
    const bool taught = document.mask[begin] != 0;
    std::string bytes;
    for (; end < document.ids.size() && (document.mask[end] != 0) == taught; ++end) bytes += tokenizer.bytes(document.ids[end]);
    text += marked(visible(bytes, LineBreaks::kept), taught);
    numbers +=
        (begin > 0 ? " " : "") + marked(fmt::format("{}", fmt::join(document.ids.subspan(begin, end - begin), " ")), taught);
  }
  const auto count = std::ranges::count(document.mask, std::uint8_t{1});
  std::string head = fmt::format("document {}, for {}: {} tokens, {} taught", document.number,
                                 document.trains ? "training" : "validation", document.ids.size(), count);
  std::string made = paint(Ink::heading, head) + "\n" + text;
  if (!made.ends_with('\n')) made += '\n';
  if (document.ids.empty()) return made;
  return made + fmt::format("ids: {}\nends with: {} ({}), {}\n\n", numbers, document.ids.back(),
                            visible(tokenizer.bytes(document.ids.back())), document.mask.back() != 0 ? "taught" : "not taught");
}

}  // namespace lockstep::data
