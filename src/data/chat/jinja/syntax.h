#pragma once

// The tree of a template.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/chat/jinja/value.h"

namespace lockstep::data::jinja {

enum class NodeKind : std::uint8_t {
  // expressions; `parts` are their operands, in order
  constant,
  written,  // what the filtered block wrote
  name,
  tuple,
  list,
  dict,         // keys and values in turns
  attribute,    // parts[0].text
  item,         // parts[0][parts[1]]
  slice,        // [parts...]: only within `item`; an absent bound is the constant None
  call,         // parts[0](parts[1], ...; named): those of "*" and "**" are spread
  filter,       // parts[0] | text(parts[1], ...; named)
  test,         // parts[0] is text(parts[1], ...; named)
  negation,     // not
  sign,         // text: + or -
  binary,       // text: an operator, `or` and `and` too
  comparison,   // parts[0], then (named[i].first) named[i].second, in a chain
  conditional,  // parts[0] if parts[1] else parts[2]
  // statements
  data,
  output,
  assign,        // parts[0] = parts[1]
  assign_block,  // parts[0] = body, through the filter parts[1] where there is one
  for_loop,      // parts: target, iterable, and perhaps a condition
  if_chain,      // parts: conditions, each with the block of its place; one more block is `else`
  macro,         // text(parts): names; `named`: defaults of the last of them
  call_block,    // parts: call, macro
  filter_block,  // parts[0]
  with,          // parts: targets and values in turns
  generation,
  leave,  // break
  skip    // continue
};

struct Node {
  NodeKind kind = NodeKind::data;
  std::size_t at = 0;  ///< byte in the source
  std::string text = {};
  Value value = None{};
  std::vector<Node> parts = {};
  std::vector<std::pair<std::string, Node>> named = {};
  std::vector<std::vector<Node>> blocks = {};  ///< of statements; a loop's second one is `else`
  int depth = 1;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;  ///< of a macro
};

}  // namespace lockstep::data::jinja
