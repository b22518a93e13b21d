// Statements of a template.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "data/chat/jinja/interpreter.h"
#include "data/chat/jinja/library.h"

namespace lockstep::data::jinja {
namespace {

/// `loop` within a for loop. Items that a condition passes are found as late as they are asked for, as Jinja does.
class Loop : public Object {
 public:
  using Next = std::function<std::optional<Value>()>;
  Loop(Next next, std::optional<std::size_t> length) : next_(std::move(next)), length_(length) {}

  std::string type() const override { return "LoopContext"; }

  bool advance() {
    if (!peek()) return false;
    before_ = std::exchange(current_, std::exchange(after_, std::nullopt));
    ++count_;
    return true;
  }
  /// A loop that has ended may still be asked.
  void end() {
    next_ = [] { return std::nullopt; };
  }
  const Value& current() const { return *current_; }
  std::size_t index0() const { return count_ - 1; }
  std::optional<Value>& changed() { return changed_; }

  std::optional<Value> attribute(std::string_view name, Interpreter& in) override {
    const auto whole = [](std::size_t number) { return static_cast<std::int64_t>(number); };
    if (name == "index") return whole(count_);
    if (name == "index0") return whole(count_ - 1);
    if (name == "first") return count_ == 1;
    if (name == "last") return !peek();
    if (name == "length") return whole(length());
    if (name == "revindex") return whole(length() - count_ + 1);
    if (name == "revindex0") return whole(length() - count_);
    if (name == "depth") return std::int64_t{1};
    if (name == "depth0") return std::int64_t{0};
    if (name == "previtem") return before_ ? *before_ : in.undefined("there is no previous item");
    if (name == "nextitem") return peek() ? *after_ : in.undefined("there is no next item");
    if (name == "cycle") return in.object<FunctionObject>("cycle", choose, Value(this));
    if (name == "changed") return in.object<FunctionObject>("changed", is_new, Value(this));
    return std::nullopt;
  }

 private:
  bool peek() {
    if (!after_) after_ = next_();
    return after_.has_value();
  }
  std::size_t length() {
    if (length_) return *length_;
    std::vector<Value> rest;
    while (std::optional<Value> item = next_()) rest.push_back(std::move(*item));
    length_ = count_ + (after_ ? 1 : 0) + rest.size();
    next_ = [rest = std::move(rest), at = std::size_t{0}]() mutable {
      return at < rest.size() ? std::optional<Value>(rest[at++]) : std::nullopt;
    };
    return *length_;
  }
  static Value choose(Call& call) {
    if (call.positional.size() < 2) call.in.refuse("loop.cycle() needs something to choose from");
    return call.positional[1 + call.positional[0].object<Loop>()->index0() % (call.positional.size() - 1)];
  }
  static Value is_new(Call& call) {
    std::optional<Value>& last = call.positional[0].object<Loop>()->changed();
    const Value now = call.in.list({call.positional.begin() + 1, call.positional.end()}, ListKind::tuple);
    if (last && call.in.same(*last, now)) return false;
    last = now;
    return true;
  }

  Next next_;
  std::optional<std::size_t> length_;
  std::size_t count_ = 0;
  std::optional<Value> before_, current_, after_, changed_;
};

}  // namespace

Scope& Interpreter::new_scope(Scope* parent) {
  charge(sizeof(Scope) / 8);
  scopes_.push_back({.parent = parent});
  return scopes_.back();
}

void Interpreter::write(std::string_view text) {
  charge(text.size() / 8);
  if (out_->size() + text.size() > settings_.limits.text) refuse("a text becomes too long", "shorten the conversation");
  *out_ += text;
}

std::string Interpreter::captured(const std::vector<Node>& statements, Scope& scope, Flow* flow) {
  std::string written;
  std::string* const outside = std::exchange(out_, &written);
  Scope* const around = std::exchange(scope_, &scope);
  const Flow ended = execute(statements);
  if (flow != nullptr) *flow = ended;
  out_ = outside;
  scope_ = around;
  return written;
}

Interpreter::Flow Interpreter::execute(const std::vector<Node>& statements) {
  for (const Node& node : statements) {
    if (const Flow flow = execute(node); flow != Flow::next) return flow;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::execute(const Node& node) {
  const Depth depth(*this, node);
  Flow flow = Flow::next;
  switch (node.kind) {
    case NodeKind::data:
      write(node.text);
      break;
    case NodeKind::output:
      write(printed(evaluate(node.parts[0])));
      break;
    case NodeKind::assign:
      assign(node.parts[0], evaluate(node.parts[1]));
      break;
    case NodeKind::assign_block: {
      written_ = text(captured(node.blocks[0], new_scope(scope_), &flow));
      if (flow == Flow::next) assign(node.parts[0], node.parts.size() == 2 ? evaluate(node.parts[1]) : written_);
      break;
    }
    case NodeKind::for_loop:
      return execute_loop(node);
    case NodeKind::if_chain:
      return execute_choice(node);
    case NodeKind::macro:
      scope_->set(node.text, object<Macro>(node, scope_));
      break;
    case NodeKind::call_block:
      execute_call_block(node);
      break;
    case NodeKind::filter_block: {
      written_ = text(captured(node.blocks[0], new_scope(scope_), &flow));
      if (flow == Flow::next) write(printed(evaluate(node.parts[0])));
      break;
    }
    case NodeKind::with:
      return execute_with(node);
    case NodeKind::generation:
      execute_generation(node);
      break;
    case NodeKind::leave:
      return Flow::leave;
    case NodeKind::skip:
      return Flow::skip;
    default:
      refuse("this is no statement");
  }
  return flow;
}

Interpreter::Flow Interpreter::execute_choice(const Node& node) {
  for (std::size_t i = 0; i < node.parts.size(); ++i) {
    if (truth(evaluate(node.parts[i]))) return execute(node.blocks[i]);
  }
  return node.blocks.size() > node.parts.size() ? execute(node.blocks.back()) : Flow::next;
}

Interpreter::Flow Interpreter::execute_loop(const Node& node) {
  const Value iterable = evaluate(node.parts[1]);
  const std::vector<Value> all = items(iterable);
  Scope* const outside = scope_;
  Scope* const tested = node.parts.size() == 3 ? &new_scope(outside) : nullptr;
  const auto next = [&, at = std::size_t{0}]() mutable -> std::optional<Value> {
    while (at < all.size()) {
      const Value& item = all[at++];
      if (tested == nullptr) return item;
      Scope* const around = std::exchange(scope_, tested);
      assign(node.parts[0], item);
      const bool passes = truth(evaluate(node.parts[2]));
      scope_ = around;
      if (passes) return item;
    }
    return std::nullopt;
  };
  Loop* const loop = object<Loop>(next, tested == nullptr ? std::optional(all.size()) : std::nullopt);
  Scope& inside = new_scope(outside);
  Flow flow = Flow::next;
  bool any = false;
  while (flow != Flow::leave && loop->advance()) {
    any = true;
    inside.variables.clear();
    inside.set("loop", loop);
    scope_ = &inside;
    assign(node.parts[0], loop->current());
    flow = execute(node.blocks[0]);
    scope_ = outside;
  }
  loop->end();
  if (any || node.blocks.size() < 2) return Flow::next;
  scope_ = &new_scope(outside);
  flow = execute(node.blocks[1]);
  scope_ = outside;
  return flow;
}

Interpreter::Flow Interpreter::execute_with(const Node& node) {
  Scope& inside = new_scope(scope_);
  for (std::size_t i = 0; i < node.parts.size(); i += 2) {
    const Value value = evaluate(node.parts[i + 1]);
    Scope* const outside = std::exchange(scope_, &inside);
    assign(node.parts[i], value);
    scope_ = outside;
  }
  Scope* const outside = std::exchange(scope_, &inside);
  const Flow flow = execute(node.blocks[0]);
  scope_ = outside;
  return flow;
}

void Interpreter::execute_call_block(const Node& node) {
  const Value function = evaluate(node.parts[0].parts[0]);
  Call made = arguments(node.parts[0], "");
  made.named.emplace_back("caller", object<Macro>(node.parts[1], scope_));
  write(printed(call(function, std::move(made))));
}

void Interpreter::execute_generation(const Node& node) {
  const bool direct = out_ == &rendered_.text;
  std::string written = captured(node.blocks[0], new_scope(scope_));
  const std::size_t begin = direct ? out_->size() : std::string::npos;
  write(written);
  rendered_.generated.push_back({.text = std::move(written), .begin = begin});
}

void Interpreter::assign(const Node& target, const Value& value) {
  if (target.kind == NodeKind::name) return scope_->set(target.text, value);
  if (target.kind == NodeKind::attribute) {
    const Value* owner = scope_->find(target.parts[0].text);
    Namespace* const space = owner != nullptr ? owner->object<Namespace>() : nullptr;
    if (space == nullptr)
      refuse(fmt::format("'{}' is no namespace: only those have attributes that can be set", target.parts[0].text));
    if (target.text.starts_with('_')) refuse(fmt::format("'{}': names of attributes do not begin with _", target.text));
    charge(sizeof(Value));
    space->members.set(text(target.text), value);
    return;
  }
  const std::vector<Value> parts = items(value);
  if (parts.size() != target.parts.size())
    refuse(fmt::format("{} values are expected to unpack, found {}", target.parts.size(), parts.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) assign(target.parts[i], parts[i]);
}

}  // namespace lockstep::data::jinja
