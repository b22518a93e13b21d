#include "train/texts/stop_texts.h"

#include <algorithm>

namespace lockstep::train {

std::string_view StopTexts::add(std::string_view piece) {
  if (stops_.empty()) return piece;
  certain_.clear();
  // Byte by byte: which stop text is first does not depend on where tokens are cut.
  for (const char byte : piece) {
    held_ += byte;
    std::size_t stop = 0, beginning = 0;
    for (const std::string& text : stops_) {
      if (held_.ends_with(text)) stop = std::max(stop, text.size());
      for (std::size_t n = std::min(text.size() - 1, held_.size()); n > beginning; --n) {
        if (held_.ends_with(std::string_view(text).substr(0, n))) beginning = n;
      }
    }
    found_ = stop > 0;
    const std::size_t end = held_.size() - (found_ ? stop : beginning);
    certain_.append(held_, 0, end);
    held_.erase(0, found_ ? held_.size() : end);
    if (found_) break;
  }
  return certain_;
}

}  // namespace lockstep::train
