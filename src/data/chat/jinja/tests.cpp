// Tests: what stands behind `is`.

#include <fmt/format.h>

#include <algorithm>

#include "data/chat/jinja/library.h"
#include "data/chat/jinja/python_text.h"

namespace lockstep::data::jinja {
namespace {

using Row = std::pair<std::string_view, Function>;

const Value& one(Call& call) { return *call.bind({"value"}, 1)[0]; }

template <auto holds>
Value test(Call& call) {
  return holds(one(call));
}

Value same_as(Call& call) {
  const auto a = call.bind({"value", "other"}, 2);
  if (a[0]->index() != a[1]->index()) return false;
  if (a[0]->list() != nullptr || a[0]->dict() != nullptr) return a[0]->list() == a[1]->list() && a[0]->dict() == a[1]->dict();
  return equal(*a[0], *a[1]);
}

Value divisible(Call& call, std::int64_t by, std::int64_t remainder) {
  return equal(call.in.binary("%", call.positional[0], by), remainder);
}

bool is_iterable(const Value& value) {
  return value.is<Undefined>() || value.text() != nullptr || value.list() != nullptr || value.dict() != nullptr;
}
bool is_sequence(const Value& value) {
  return value.is<Undefined>() || value.text() != nullptr || value.dict() != nullptr ||
         (value.list() != nullptr && value.list()->has_elements());
}

template <bool swapped, bool negated>
Value ordered(Call& call) {
  const auto a = call.bind({"value", "other"}, 2);
  return call.in.less(*a[swapped ? 1 : 0], *a[swapped ? 0 : 1]) != negated;
}
constexpr Function greater = ordered<true, false>, smaller = ordered<false, false>, at_least = ordered<false, true>,
                   at_most = ordered<true, true>;

Value is_equal(Call& call) {
  const auto a = call.bind({"value", "other"}, 2);
  return call.in.same(*a[0], *a[1]);
}
Value differs(Call& call) { return !truth(is_equal(call)); }

constexpr Row tests[] = {
    {"boolean", test<[](const Value& v) { return v.is<bool>(); }>},
    {"callable", test<[](const Value& v) { return v.is<Object*>() && std::get<Object*>(v)->callable(); }>},
    {"defined", test<[](const Value& v) { return !v.is<Undefined>(); }>},
    {"divisibleby", [](Call& call) { return divisible(call, call.in.whole(*call.bind({"value", "num"}, 2)[1], "num"), 0); }},
    {"eq", is_equal},
    {"equalto", is_equal},
    {"==", is_equal},
    {"escaped", test<[](const Value& v) { return v.is<Text>() && std::get<Text>(v).escaped; }>},
    {"even", [](Call& call) { return divisible(call, 2, 0); }},
    {"false", test<[](const Value& v) { return v.is<bool>() && !truth(v); }>},
    {"filter", [](Call& call) -> Value { return find_filter(call.in.printed(one(call))) != nullptr; }},
    {"float", test<[](const Value& v) { return v.is<double>(); }>},
    {"ge", at_least},
    {">=", at_least},
    {"greaterthan", greater},
    {"gt", greater},
    {">", greater},
    {"in",
     [](Call& call) -> Value {
       const auto a = call.bind({"value", "seq"}, 2);
       return call.in.contains(*a[1], *a[0]);
     }},
    {"integer", test<[](const Value& v) { return v.is<std::int64_t>(); }>},
    {"iterable", test<is_iterable>},
    {"le", at_most},
    {"<=", at_most},
    {"lessthan", smaller},
    {"lower", [](Call& call) -> Value { return has_only(call.in.printed(one(call)), "islower"); }},
    {"lt", smaller},
    {"<", smaller},
    {"mapping", test<[](const Value& v) { return v.dict() != nullptr; }>},
    {"ne", differs},
    {"!=", differs},
    {"none", test<[](const Value& v) { return v.is<None>(); }>},
    {"number", test<[](const Value& v) { return v.number().has_value(); }>},
    {"odd", [](Call& call) { return divisible(call, 2, 1); }},
    {"sameas", same_as},
    {"sequence", test<is_sequence>},
    {"string", test<[](const Value& v) { return v.text() != nullptr; }>},
    {"test", [](Call& call) -> Value { return find_test(call.in.printed(one(call))) != nullptr; }},
    {"true", test<[](const Value& v) { return v.is<bool>() && truth(v); }>},
    {"undefined", test<[](const Value& v) { return v.is<Undefined>(); }>},
    {"upper", [](Call& call) -> Value { return has_only(call.in.printed(one(call)), "isupper"); }},
};

}  // namespace

Function find_test(std::string_view name) {
  const auto found = std::ranges::find(tests, name, &Row::first);
  return found != std::end(tests) ? found->second : nullptr;
}

}  // namespace lockstep::data::jinja
