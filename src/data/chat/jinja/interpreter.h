#pragma once

// Runs a template's tree over values. Filters, tests, methods and functions (library.h) work through it.

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "data/chat/jinja/syntax.h"
#include "data/chat/jinja/template.h"
#include "data/chat/jinja/value.h"

namespace lockstep::data::jinja {

/// A call of a filter, test, method or function. A filter's subject and a method's text, list or dict is the first argument.
struct Call {
  Interpreter& in;
  std::string name;
  std::vector<Value> positional = {};
  std::vector<std::pair<std::string, Value>> named = {};

  /// The arguments by their names, in order; null where one is absent. Refuses others, and fewer than `required`.
  std::vector<const Value*> bind(std::initializer_list<std::string_view> names, std::size_t required = 0) const;
};

struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<std::string, Value>> variables = {};

  Value* find(std::string_view name);  ///< looks in the scopes around this one, too
  void set(std::string_view name, Value value);
};

class Interpreter {
 public:
  Interpreter(std::string_view source, const Settings& settings);

  Rendered render(const std::vector<Node>& statements, const Json::Object& variables);

  /// Throws UserError with the place of what is evaluated.
  [[noreturn]] void refuse(const std::string& what, const std::string& remedy = "") const;
  /// Refuses where `value` is undefined, and says what makes it so.
  void demand(const Value& value) const;
  /// Counts work, so that no template goes on for ever: a unit for each item or each eight bytes that are made.
  void charge(std::size_t units);

  Value list(std::vector<Value> items, ListKind kind = ListKind::list);
  Value dict(Dict dict);
  Value text(std::string text);
  Value undefined(std::string why);
  template <class T, class... Arguments>
  T* object(Arguments&&... arguments) {
    charge(sizeof(T));
    objects_.push_back(std::make_unique<T>(std::forward<Arguments>(arguments)...));
    return static_cast<T*>(objects_.back().get());
  }
  Value from_json(const Json& json);

  /// str() and repr().
  std::string printed(const Value& value);
  std::string represented(const Value& value);
  /// The items that iterating over the value gives; a generator is empty afterwards.
  std::vector<Value> items(const Value& value);
  /// value[key] and value.name
  Value item(const Value& value, const Value& key);
  Value attribute(const Value& value, const std::string& name);
  /// a == b and a < b
  bool same(const Value& a, const Value& b);
  bool less(const Value& a, const Value& b);
  bool contains(const Value& container, const Value& value);
  Value binary(std::string_view operation, const Value& a, const Value& b);
  Value call(const Value& function, Call call);
  Value filter(Call call);
  bool test(Call call);

  std::int64_t whole(const Value& value, std::string_view what);
  const Settings& settings() const { return settings_; }

  /// What a macro writes.
  Value run_macro(const Node& macro, Scope* around, Call& call);

 private:
  enum class Flow : std::uint8_t { next, leave, skip };
  struct Depth;

  void demand_extent(const Extent& extent) const;
  Value evaluate(const Node& node);
  Value evaluate_here(const Node& node);
  Value evaluate_operation(const Node& node);
  Value evaluate_sign(const Node& node);
  Value evaluate_comparison(const Node& node);
  Value evaluate_item(const Node& node);
  Value evaluate_slice(const Value& value, const Node& slice);
  Call arguments(const Node& node, std::string name);
  /// Adds the members of a dict as named arguments.
  void spread(const Value& given, Call& call);
  bool compare(std::string_view word, const Value& a, const Value& b);
  Value whole_arithmetic(char operation, std::int64_t a, std::int64_t b);
  Value real_arithmetic(char operation, double a, double b);
  std::int64_t floored(char operation, std::int64_t a, std::int64_t b);
  std::int64_t whole_power(std::int64_t a, std::int64_t b);
  Value repeated(const Value& value, std::int64_t times);
  Value sum(const Text& a, const Text& b);
  Value sum(const List& a, const List& b);
  Value method_or_undefined(const Value& value, const std::string& name, bool is_item);

  Flow execute(const std::vector<Node>& statements);
  Flow execute(const Node& node);
  Flow execute_loop(const Node& node);
  Flow execute_choice(const Node& node);
  Flow execute_with(const Node& node);
  void execute_call_block(const Node& node);
  void execute_generation(const Node& node);
  void assign(const Node& target, const Value& value);
  void write(std::string_view text);
  /// What a block writes, in the scope that is given.
  std::string captured(const std::vector<Node>& statements, Scope& scope, Flow* flow = nullptr);
  Scope& new_scope(Scope* parent);

  std::string_view source_;
  const Settings& settings_;
  std::size_t at_ = 0;  // place of what is evaluated
  int depth_ = 0;
  std::size_t work_ = 0;
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
  std::deque<std::string> reasons_;
  std::deque<std::unique_ptr<Object>> objects_;
  std::deque<Scope> scopes_;
  Scope* scope_ = nullptr;
  std::string* out_ = nullptr;
  Value written_;  // text of the block that is filtered
  Rendered rendered_;
};

/// Notes what is evaluated, and how deep that is, as long as it lives.
struct Interpreter::Depth {
  Interpreter& in;
  std::size_t at;
  Depth(Interpreter& owner, const Node& node) : in(owner), at(owner.at_) {
    in.at_ = node.at;
    in.charge(0);
    if (in.depth_ == in.settings_.limits.depth)
      in.refuse("the template goes too deep", "no chat template needs it: mend its macros");
    ++in.depth_;
  }
  ~Depth() {
    in.at_ = at;
    --in.depth_;
  }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
};

}  // namespace lockstep::data::jinja
