#include "data/chat/jinja/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/chat/jinja/library.h"

namespace lockstep::data::jinja {
namespace {

constexpr int most_nested = 80, most_depth = 200;

std::string described(const Token& token) {
  switch (token.kind) {
    case TokenKind::end:
      return "the end of the template";
    case TokenKind::print_end:
      return "'}}'";
    case TokenKind::block_end:
      return "'%}'";
    case TokenKind::print_begin:
      return "'{{'";
    case TokenKind::block_begin:
      return "'{%'";
    case TokenKind::data:
      return "text";
    case TokenKind::text:
      return "a string";
    default:
      return fmt::format("'{}'", token.text);
  }
}

}  // namespace

ExpressionParser::Nested::Nested(ExpressionParser& within) : parser(within) {
  if (parser.nesting_ == most_nested)
    parser.refuse(fmt::format("more than {} expressions or blocks inside one another", most_nested), parser.current().at);
  ++parser.nesting_;
}

bool ExpressionParser::is(const Token& token, std::string_view word) {
  return (token.kind == TokenKind::name || token.kind == TokenKind::symbol) && token.text == word;
}

bool ExpressionParser::skip(std::string_view word) {
  if (!is(word)) return false;
  take();
  return true;
}

void ExpressionParser::expect(std::string_view word) {
  if (!skip(word)) refuse_here(fmt::format("'{}'", word));
}

void ExpressionParser::expect(TokenKind kind, std::string_view what) {
  if (!is(kind)) refuse_here(what);
  take();
}

std::string ExpressionParser::expect_name(std::string_view what) {
  if (!is(TokenKind::name)) refuse_here(what);
  return take().text;
}

void ExpressionParser::refuse(const std::string& what, std::size_t at) const {
  refuse_at(source_, at, what, "mend the template");
}

void ExpressionParser::refuse_here(std::string_view wanted) const {
  refuse(fmt::format("{} is expected, found {}", wanted, described(current())), current().at);
}

Node ExpressionParser::make(NodeKind kind, std::size_t at, std::vector<Node> parts, std::string text) const {
  int depth = 0;
  for (const Node& part : parts) depth = std::max(depth, part.depth);
  if (depth >= most_depth) refuse(fmt::format("more than {} operations inside one another", most_depth), at);
  return {.kind = kind, .at = at, .text = std::move(text), .parts = std::move(parts), .depth = depth + 1};
}

void ExpressionParser::check_known(std::string_view what, const std::string& name, std::size_t at) const {
  const bool known = what == "filter" ? find_filter(name) != nullptr : find_test(name) != nullptr;
  if (!known && conditions_ == 0) refuse(fmt::format("the {} '{}' is not known", what, name), at);
}

Node ExpressionParser::expression() {
  const Nested nested(*this);
  const std::size_t at = current().at;
  Node node = level(0);
  while (skip("if")) {
    ++conditions_;
    Node condition = level(0);
    node = skip("else") ? make_of(NodeKind::conditional, at, "", std::move(node), std::move(condition), expression())
                        : make_of(NodeKind::conditional, at, "", std::move(node), std::move(condition));
    --conditions_;
  }
  return node;
}

// From what binds weakest on; `not` and comparisons stand between the second and the third.
Node ExpressionParser::level(std::size_t precedence) {
  static const std::vector<std::vector<std::string_view>> operators = {
      {"or"}, {"and"}, {}, {"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
  if (precedence == operators.size()) return unary(true);
  if (precedence == 2) return comparison();
  Node left = level(precedence + 1);
  for (;;) {
    const auto& mine = operators[precedence];
    if (std::ranges::none_of(mine, [&](std::string_view word) { return is(word); })) return left;
    const Token& word = take();
    Node right = level(precedence + 1);
    left = make_of(NodeKind::binary, word.at, word.text, std::move(left), std::move(right));
  }
}

Node ExpressionParser::comparison() {
  const std::size_t at = current().at;
  if (skip("not")) {
    const Nested nested(*this);
    return make_of(NodeKind::negation, at, "", comparison());
  }
  std::vector<Node> parts;
  parts.push_back(level(3));
  std::vector<std::string> words;
  for (;;) {
    static constexpr std::string_view known[] = {"==", "!=", "<", "<=", ">", ">=", "in"};
    if (is("not") && is(look(), "in")) {
      take();
      words.emplace_back("not in");
    } else if (std::ranges::any_of(known, [&](std::string_view word) { return is(word); })) {
      words.push_back(current().text);
    } else {
      break;
    }
    take();
    parts.push_back(level(3));
  }
  if (words.empty()) return std::move(parts.front());
  Node node = make(NodeKind::comparison, at, std::move(parts));
  for (std::size_t i = 0; i < words.size(); ++i) node.named.emplace_back(words[i], std::move(node.parts[i + 1]));
  node.parts.resize(1);
  return node;
}

Node ExpressionParser::unary(bool filters) {
  const Token& token = current();
  Node node;
  if (is("-") || is("+")) {
    const Nested nested(*this);
    take();
    node = make_of(NodeKind::sign, token.at, token.text, unary(false));
  } else {
    node = primary(false);
  }
  return postfix(std::move(node), filters);
}

Node ExpressionParser::name() {
  const Token& token = take();
  Node node = make(NodeKind::constant, token.at, {}, token.text);
  if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
    node.value = token.text == "true" || token.text == "True";
  } else if (token.text != "none" && token.text != "None") {
    node.kind = NodeKind::name;
    uses_caller_ |= token.text == "caller";
    uses_varargs_ |= token.text == "varargs";
    uses_kwargs_ |= token.text == "kwargs";
  }
  return node;
}

Node ExpressionParser::primary(bool members) {
  const Token& token = current();
  Node node = make(NodeKind::constant, token.at, {});
  if (is(TokenKind::name)) {
    node = name();
    if (!members || node.kind != NodeKind::name || !skip(".")) return node;
    return make_of(NodeKind::attribute, token.at, expect_name("a name"), std::move(node));
  }
  if (is(TokenKind::text)) {
    std::string text;
    while (is(TokenKind::text)) text += take().text;
    node.value = std::move(text);
  } else if (is(TokenKind::integer)) {
    node.value = take().integer;
  } else if (is(TokenKind::real)) {
    node.value = take().real;
  } else if (skip("(")) {
    node = tuple(Conditional::yes, true);
    expect(")");
  } else if (skip("[")) {
    std::vector<Node> items;
    while (!is("]")) {
      items.push_back(expression());
      if (!is("]")) expect(",");
    }
    take();
    node = make(NodeKind::list, token.at, std::move(items));
  } else if (is("{")) {
    node = dict();
  } else {
    refuse_here("an expression");
  }
  return node;
}

Node ExpressionParser::dict() {
  const std::size_t at = take().at;
  std::vector<Node> items;
  while (!is("}")) {
    items.push_back(expression());
    expect(":");
    items.push_back(expression());
    if (!is("}")) expect(",");
  }
  take();
  return make(NodeKind::dict, at, std::move(items));
}

Node ExpressionParser::tuple(Conditional conditional, bool in_parentheses, std::string_view end) {
  const std::size_t at = current().at;
  const auto ends = [&] { return is(TokenKind::print_end) || is(TokenKind::block_end) || is(")") || (!end.empty() && is(end)); };
  std::vector<Node> items;
  bool is_tuple = false;
  while (!ends()) {
    items.push_back(conditional == Conditional::yes ? expression() : level(0));
    if (!skip(",")) break;
    is_tuple = true;
  }
  if (is_tuple || (items.empty() && in_parentheses)) return make(NodeKind::tuple, at, std::move(items));
  if (items.empty()) refuse_here("an expression");
  return std::move(items.front());
}

Node ExpressionParser::target(bool members) {
  const Nested nested(*this);
  const std::size_t at = current().at;
  std::vector<Node> items;
  bool is_tuple = false;
  while (!is("in") && !is(TokenKind::block_end) && !is("=") && !is(")")) {
    if (skip("(")) {
      items.push_back(target(members));
      expect(")");
    } else {
      items.push_back(primary(members));
    }
    const Node& made = items.back();
    if (made.kind == NodeKind::constant || made.kind == NodeKind::list || made.kind == NodeKind::dict)
      refuse("a value cannot be assigned to", made.at);
    if (!skip(",")) break;
    is_tuple = true;
  }
  if (items.empty()) refuse_here("a name");
  if (is_tuple) return make(NodeKind::tuple, at, std::move(items));
  return std::move(items.front());
}

Node ExpressionParser::postfix(Node node, bool filters) {
  bool is_filtered = false;  // then no dot follows, nor a bracket
  for (;;) {
    if (!is_filtered && (is(".") || is("["))) {
      node = subscript(std::move(node));
    } else if (is("(")) {
      node = make_of(NodeKind::call, current().at, "", std::move(node));
      arguments(node);
    } else if (filters && skip("|")) {
      node = filter(std::move(node));
      is_filtered = true;
    } else if (filters && is("is")) {
      node = test(std::move(node));
      is_filtered = true;
    } else {
      return node;
    }
  }
}

Node ExpressionParser::filter(Node subject) {
  const std::size_t at = current().at;
  std::string name = expect_name("the name of a filter");
  check_known("filter", name, at);
  Node node = make_of(NodeKind::filter, at, std::move(name), std::move(subject));
  if (is("(")) arguments(node);
  return node;
}

Node ExpressionParser::test(Node node) {
  const std::size_t at = take().at;
  const bool negated = skip("not");
  const std::size_t name_at = current().at;
  std::string name = expect_name("the name of a test");
  check_known("test", name, name_at);
  Node made = make_of(NodeKind::test, name_at, std::move(name), std::move(node));
  const bool has_operand =
      is(TokenKind::name) || is(TokenKind::text) || is(TokenKind::integer) || is(TokenKind::real) || is("[") || is("{");
  if (is("(")) {
    arguments(made);
  } else if (is("is")) {
    refuse("tests do not follow one another", current().at);
  } else if (has_operand && !is("else") && !is("or") && !is("and")) {
    made.parts.push_back(postfix(primary(false), false));
    made = make(NodeKind::test, made.at, std::move(made.parts), std::move(made.text));
  }
  return negated ? make_of(NodeKind::negation, at, "", std::move(made)) : std::move(made);
}

Node ExpressionParser::subscript(Node node) {
  const Token& token = take();
  if (token.text == ".") {
    if (is(TokenKind::name)) return make_of(NodeKind::attribute, token.at, take().text, std::move(node));
    if (!is(TokenKind::integer)) refuse_here("a name or a number");
    return make_of(NodeKind::item, token.at, "", std::move(node), primary(false));
  }
  std::vector<Node> items;
  while (!is("]")) {
    items.push_back(subscribed());
    if (!is("]")) expect(",");
  }
  take();
  const bool has_slice = std::ranges::any_of(items, [](const Node& item) { return item.kind == NodeKind::slice; });
  if (items.size() != 1 && (has_slice || items.empty())) refuse("one index is expected", token.at);
  Node index = items.size() == 1 ? std::move(items.front()) : make(NodeKind::tuple, token.at, std::move(items));
  return make_of(NodeKind::item, token.at, "", std::move(node), std::move(index));
}

Node ExpressionParser::subscribed() {
  const std::size_t at = current().at;
  std::vector<Node> bounds;
  bool is_slice = false, absent = false;
  do {
    absent = is(":") || is("]") || is(",");
    bounds.push_back(absent ? make(NodeKind::constant, at, {}) : expression());
    is_slice |= is(":");
  } while (bounds.size() < 3 && skip(":"));
  if (!is_slice && absent) refuse_here("an index");
  if (!is_slice) return std::move(bounds.front());
  while (bounds.size() < 3) bounds.push_back(make(NodeKind::constant, at, {}));
  return make(NodeKind::slice, at, std::move(bounds));
}

void ExpressionParser::arguments(Node& call) {
  const Nested nested(*this);
  expect("(");
  int depth = call.depth;
  while (!is(")")) {
    const bool spreads = is("*") || is("**"), is_named = is(TokenKind::name) && is(look(), "=");
    const auto has = [&](std::string_view word) {
      return std::ranges::count(call.named, word, &std::pair<std::string, Node>::first);
    };
    if (has("**") > 0 || (is("*") && has("*") > 0))
      refuse("no argument of that kind follows those behind '*' or '**'", current().at);
    if (spreads || is_named) {
      std::string name = take().text;
      if (is_named) take();
      call.named.emplace_back(std::move(name), expression());
      depth = std::max(depth, call.named.back().second.depth + 1);
    } else {
      if (!call.named.empty()) refuse("an argument without a name follows one with a name", current().at);
      call.parts.push_back(expression());
      depth = std::max(depth, call.parts.back().depth + 1);
    }
    if (!is(")")) expect(",");
  }
  take();
  if (depth > most_depth) refuse(fmt::format("more than {} operations inside one another", most_depth), call.at);
  call.depth = depth;
}

}  // namespace lockstep::data::jinja
