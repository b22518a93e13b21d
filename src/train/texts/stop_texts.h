#pragma once

// Texts that end a text, found while it is written piece by piece: pieces are tokens, which cut them anywhere.

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
  /// Whether one is complete.
  bool found() const { return found_; }
  /// What is left where no more comes.
  std::string_view held() const { return held_; }

 private:
  std::span<const std::string> stops_;
  std::string held_, certain_;
  bool found_ = false;
};

}  // namespace lockstep::train
