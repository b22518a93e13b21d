#pragma once

// Finds stop texts, which end a text, while it is written piece by piece. Pieces are tokens, which cut stop texts anywhere.

#include <span>
#include <string>
#include <string_view>

namespace lockstep::train {

class StopTexts {
 public:
  /// `stops`, of which none is empty, outlive this.
  explicit StopTexts(std::span<const std::string> stops) : stops_(stops) {}

  /// Takes the next piece, and returns what may be shown now. What may begin a stop text is held back. A complete stop text ends
  /// the text and is never shown. Valid until the next call.
  std::string_view add(std::string_view piece);
  /// Whether a stop text is complete.
  bool found() const { return found_; }
  /// The text that is held back; shown where no more pieces come.
  std::string_view held() const { return held_; }

 private:
  std::span<const std::string> stops_;
  std::string held_, certain_;
  bool found_ = false;
};

}  // namespace lockstep::train
