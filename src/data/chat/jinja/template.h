#pragma once

// Chat templates are written in Jinja2. This is the part of it that they use, in transformers' environment. That has trim_blocks,
// lstrip_blocks, loop controls, `generation` blocks, tojson, raise_exception, strftime_now, and containers that never change.
// What Jinja2 renders is rendered to the byte; what is not known is refused by name and place.

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace lockstep::data::jinja {

struct Node;

/// Text that a {% generation %} block wrote.
struct Generated {
  std::string text;
  std::size_t begin = 0;  ///< its byte in the rendered text; npos where a macro or a variable took the text first
};

struct Rendered {
  std::string text;
  std::vector<Generated> generated;
};

/// Limits of a rendering: no template takes longer, writes more, or goes deeper.
struct Limits {
  std::size_t work = std::size_t{1} << 26;  ///< steps, items made, and eight bytes of text each
  std::size_t text = std::size_t{1} << 26;  ///< bytes of one text
  int depth = 1200;                         ///< operations and blocks inside one another, macros' too
};

struct Settings {
  std::tm now = {};  ///< what strftime_now() writes
  Limits limits = {};
};

class Template {
 public:
  /// Throws UserError: "`name`, line L, column C: ...", with what is not known or not right there.
  Template(std::string_view source, std::string name);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  /// Throws UserError in the same form, also with what the template itself refuses (raise_exception).
  Rendered render(const Json::Object& variables, const Settings& settings) const;
  const std::string& name() const { return name_; }
  const std::string& source() const { return source_; }
  /// Whether it says by {% generation %} what the model writes.
  bool marks_generation() const { return marks_generation_; }

 private:
  std::string name_, source_;
  std::vector<Node> statements_;
  bool marks_generation_ = false;
};

}  // namespace lockstep::data::jinja
