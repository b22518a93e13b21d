#pragma once

// Expressions of a template, read from its tokens.

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/jinja/syntax.h"
#include "data/chat/jinja/tokens.h"

namespace lockstep::data::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view source) : source_(source), tokens_(tokens_of(source)) {}

 protected:
  const Token& current() const { return tokens_[next_]; }
  const Token& look() const { return tokens_[std::min(next_ + 1, tokens_.size() - 1)]; }
  const Token& take() { return tokens_[next_ + 1 < tokens_.size() ? next_++ : next_]; }
  /// Whether a token is this name or symbol.
  static bool is(const Token& token, std::string_view word);
  bool is(std::string_view word) const { return is(current(), word); }
  bool is(TokenKind kind) const { return current().kind == kind; }
  bool skip(std::string_view word);
  void expect(std::string_view word);
  void expect(TokenKind kind, std::string_view what);
  std::string expect_name(std::string_view what);
  [[noreturn]] void refuse(const std::string& what, std::size_t at) const;
  /// Says what stands here where `wanted` should.
  [[noreturn]] void refuse_here(std::string_view wanted) const;

  /// A node with its operands; throws where the tree becomes too deep.
  Node make(NodeKind kind, std::size_t at, std::vector<Node> parts, std::string text = "") const;
  template <class... Nodes>
  Node make_of(NodeKind kind, std::size_t at, std::string text, Nodes... nodes) const {
    std::vector<Node> parts;
    (parts.push_back(std::move(nodes)), ...);
    return make(kind, at, std::move(parts), std::move(text));
  }
  Node expression();
  enum class Conditional : bool { no, yes };
  /// One expression, or several with commas between them.
  Node tuple(Conditional conditional, bool in_parentheses = false, std::string_view end = "");
  Node target(bool members);
  /// `name(...)` behind a bar.
  Node filter(Node subject);
  /// Refuses a filter or a test that is not known, except where it may never run.
  void check_known(std::string_view what, const std::string& name, std::size_t at) const;

  int conditions_ = 0;  ///< conditions around this place
  bool uses_caller_ = false, uses_varargs_ = false, uses_kwargs_ = false;
  struct Nested {
    ExpressionParser& parser;
    explicit Nested(ExpressionParser& within);
    ~Nested() { --parser.nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
  };

 private:
  Node level(std::size_t precedence);
  Node comparison();
  Node unary(bool filters);
  Node primary(bool members);
  Node name();
  Node postfix(Node node, bool filters);
  Node subscript(Node node);
  Node subscribed();
  Node test(Node node);
  Node dict();
  void arguments(Node& call);

  std::string_view source_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  int nesting_ = 0;
};

}  // namespace lockstep::data::jinja
