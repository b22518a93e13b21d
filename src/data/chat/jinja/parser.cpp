#include "data/chat/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/chat/jinja/expression_parser.h"

namespace lockstep::data::jinja {
namespace {

using Block = std::vector<Node>;

class Parser : ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Block read() { return block({}, "", 0); }

 private:
  // Statements up to one of the tags, which stays. `opened`: the tag that began the block.
  Block block(std::initializer_list<std::string_view> ends, std::string_view opened, std::size_t opened_at) {
    const Nested nested(*this);
    Block statements;
    while (!is(TokenKind::end)) {
      const Token& token = take();
      if (token.kind == TokenKind::data) {
        statements.push_back(make(NodeKind::data, token.at, {}, token.text));
      } else if (token.kind == TokenKind::print_begin) {
        statements.push_back(make_of(NodeKind::output, token.at, "", tuple(Conditional::yes)));
        expect(TokenKind::print_end, "'}}'");
      } else {
        if (std::ranges::any_of(ends, [&](std::string_view word) { return is(word); })) return statements;
        statements.push_back(statement());
        expect(TokenKind::block_end, "'%}'");
      }
    }
    if (ends.size() > 0) refuse(fmt::format("the block '{}' has no '{}'", opened, *(ends.end() - 1)), opened_at);
    return statements;
  }

  Block body(std::initializer_list<std::string_view> ends, std::string_view opened, std::size_t opened_at) {
    skip(":");
    expect(TokenKind::block_end, "'%}'");
    return block(ends, opened, opened_at);
  }
  // The block of a statement; its closing tag is taken.
  void add_body(Node& node, std::string_view opened, std::string_view end) {
    node.blocks.push_back(body({end}, opened, node.at));
    take();
  }

  Node statement() {
    const std::size_t at = current().at;
    const std::string tag = expect_name("the name of a tag");
    if (tag == "set") return assignment(at);
    if (tag == "for") return loop(at);
    if (tag == "if") return choice(at);
    if (tag == "macro") return macro(at);
    if (tag == "call") return call(at);
    if (tag == "with") return with(at);
    if (tag == "filter") {
      Node node = make_of(NodeKind::filter_block, at, "", block_filters(at));
      add_body(node, tag, "endfilter");
      return node;
    }
    if (tag == "generation") {
      Node node = make(NodeKind::generation, at, {});
      const int loops = std::exchange(loops_, 0);  // it is a function, as a macro is
      add_body(node, tag, "endgeneration");
      loops_ = loops;
      return node;
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) refuse(fmt::format("'{}' stands in no loop", tag), at);
      return make(tag == "break" ? NodeKind::leave : NodeKind::skip, at, {});
    }
    if (tag.starts_with("end") || tag == "else" || tag == "elif") refuse(fmt::format("'{}' closes no block here", tag), at);
    refuse(fmt::format("the tag '{}' is not known", tag), at);
  }

  // The filters that what a block writes goes through.
  Node block_filters(std::size_t at) {
    Node node = filter(make(NodeKind::written, at, {}));
    while (skip("|")) node = filter(std::move(node));
    return node;
  }

  Node assignment(std::size_t at) {
    std::vector<Node> parts;
    parts.push_back(target(true));
    if (skip("=")) {
      parts.push_back(tuple(Conditional::yes));
      return make(NodeKind::assign, at, std::move(parts));
    }
    if (skip("|")) parts.push_back(block_filters(at));
    Node node = make(NodeKind::assign_block, at, std::move(parts));
    add_body(node, "set", "endset");
    return node;
  }

  Node loop(std::size_t at) {
    std::vector<Node> parts;
    parts.push_back(target(false));
    expect("in");
    parts.push_back(tuple(Conditional::no, false, "recursive"));
    if (skip("if")) parts.push_back(expression());
    if (is("recursive")) refuse("loops that are 'recursive' are not known", current().at);
    Node node = make(NodeKind::for_loop, at, std::move(parts));
    const int conditions = std::exchange(conditions_, 0);
    ++loops_;
    node.blocks.push_back(body({"else", "endfor"}, "for", at));
    --loops_;
    if (take().text == "else") add_body(node, "for", "endfor");
    conditions_ = conditions;
    return node;
  }

  Node choice(std::size_t at) {
    std::vector<Node> conditions;
    std::vector<Block> blocks;
    std::string tag = "elif";
    ++conditions_;
    while (tag == "elif") {
      conditions.push_back(tuple(Conditional::no));
      blocks.push_back(body({"elif", "else", "endif"}, "if", at));
      tag = take().text;
    }
    Node node = make(NodeKind::if_chain, at, std::move(conditions));
    node.blocks = std::move(blocks);
    if (tag == "else") add_body(node, "if", "endif");
    --conditions_;
    return node;
  }

  // The names that a macro takes.
  Node signature(Node node, bool required) {
    if (skip("(")) {
      while (!is(")")) {
        const std::size_t at = current().at;
        std::string name = expect_name("a name");
        if (skip("=")) {
          node.named.emplace_back(name, expression());
        } else if (!node.named.empty()) {
          refuse(fmt::format("'{}' needs a default, as the name before it has one", name), at);
        }
        node.parts.push_back(make(NodeKind::name, at, {}, std::move(name)));
        if (!is(")")) expect(",");
      }
      take();
    } else if (required) {
      refuse_here("'('");
    }
    return node;
  }
  void finish_macro(Node& node, std::string_view tag, std::string_view end) {
    const bool caller = std::exchange(uses_caller_, false), varargs = std::exchange(uses_varargs_, false);
    const bool kwargs = std::exchange(uses_kwargs_, false);
    const int loops = std::exchange(loops_, 0), conditions = std::exchange(conditions_, 0);
    add_body(node, tag, end);
    node.uses_caller = uses_caller_, node.uses_varargs = uses_varargs_, node.uses_kwargs = uses_kwargs_;
    uses_caller_ |= caller, uses_varargs_ |= varargs, uses_kwargs_ |= kwargs;
    loops_ = loops, conditions_ = conditions;
  }

  Node macro(std::size_t at) {
    Node node = make(NodeKind::macro, at, {}, expect_name("the name of a macro"));
    node = signature(std::move(node), true);
    finish_macro(node, "macro", "endmacro");
    return node;
  }

  Node call(std::size_t at) {
    Node inner = signature(make(NodeKind::macro, at, {}, "caller"), false), called = expression();
    if (called.kind != NodeKind::call) refuse("a call is expected", called.at);
    finish_macro(inner, "call", "endcall");
    return make_of(NodeKind::call_block, at, "", std::move(called), std::move(inner));
  }

  Node with(std::size_t at) {
    std::vector<Node> parts;
    while (!is(TokenKind::block_end)) {
      if (!parts.empty()) expect(",");
      parts.push_back(target(false));
      expect("=");
      parts.push_back(expression());
    }
    Node node = make(NodeKind::with, at, std::move(parts));
    add_body(node, "with", "endwith");
    return node;
  }

  int loops_ = 0;  // around here
};

}  // namespace

std::vector<Node> parse(std::string_view source) { return Parser(source).read(); }

}  // namespace lockstep::data::jinja
