#pragma once

// Colours of text on a terminal. Text for a file or a pipe has none unless they are asked for.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace lockstep {

enum class Ink : std::uint8_t { heading, error, hint };

/// Whether `file` shows colours. NO_COLOR in the environment says no, and else CLICOLOR_FORCE yes; where neither is set, a
/// terminal shows them unless TERM is "dumb".
bool shows_colours(std::FILE* file);
/// Does what --color=`when` asks for, in this process and those that it starts: auto, always or never. Throws UserError for
/// another word.
void choose_colours(std::string_view when);

/// Puts inks on text for a stream that shows colours.
class Paint {
 public:
  Paint() = default;  // none
  explicit Paint(std::FILE* file) : on_(shows_colours(file)) {}
  bool is_on() const { return on_; }
  std::string operator()(Ink ink, std::string_view text) const;
  /// In the colour of the curve of this index: neighbours differ.
  std::string curve(std::size_t index, std::string_view text) const;
  /// The message of an error: what stands before its first colon, and the arrows before its remedies.
  std::string error(std::string_view message) const;

 private:
  std::string with_code(std::string_view code, std::string_view text) const;
  bool on_ = false;
};

}  // namespace lockstep
