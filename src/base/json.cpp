#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/error.h"
#include "base/text/utf8.h"

namespace lockstep {
namespace {

using Library = nlohmann::ordered_json;

[[noreturn]] void wrong_type(std::string_view expected, const Json& value) {
  std::string text = value.dump();
  if (std::size_t end = 57; text.size() > end + 3) {
    while (is_continuation(text[end])) --end;
    text = text.substr(0, end) + "...";
  }
  throw UserError(fmt::format("JSON: expected {}, found {}", expected, text), "mend the value or write the file again");
}

Library to_library(const Json& value) {
  if (value.is_null()) return nullptr;
  if (value.is_bool()) return value.boolean();
  if (value.is_int()) return value.integer();
  if (value.is_number()) return value.number();
  if (value.is_string()) return value.string();
  if (value.is_array()) {
    Library array = Library::array();
    for (const Json& item : value.array()) array.push_back(to_library(item));
    return array;
  }
  Library object = Library::object();
  for (const auto& [key, item] : value.object()) object.get_ref<Library::object_t&>().emplace_back(key, to_library(item));
  return object;
}

/// Builds a Json from the parser's events. Refuses what a recursive destructor or a reader could stumble over: depth and
/// keys that appear twice.
class Builder {
 public:
  using Take = std::function<void(const std::string&, const Json&)>;
  /// `take`: is given the members of the outer object; null: they are kept.
  explicit Builder(std::string_view text, std::size_t most_bytes, const Take* take = nullptr)
      : text_(text), reached_(text.data()), most_bytes_(most_bytes), take_(take) {}

  /// Moves on through the text, as the parser does.
  const char*& reached() { return reached_; }

  using number_integer_t = Library::number_integer_t;
  using number_unsigned_t = Library::number_unsigned_t;
  using number_float_t = Library::number_float_t;
  using string_t = Library::string_t;
  using binary_t = Library::binary_t;

  bool null() { return add(nullptr); }
  bool boolean(bool b) { return add(b); }
  bool number_integer(number_integer_t i) { return add(static_cast<std::int64_t>(i)); }
  bool number_unsigned(number_unsigned_t u) {
    const bool fits = u <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return fits ? add(static_cast<std::int64_t>(u)) : add(Json::LongInteger{static_cast<double>(u)});
  }
  bool number_float(number_float_t d, const string_t& text) {
    return text.find_first_of(".eE") == string_t::npos ? add(Json::LongInteger{d}) : add(d);
  }
  bool string(string_t& s) { return add(std::move(s)); }
  bool binary(binary_t&) { return refuse("binary values are not JSON"); }
  bool start_array(std::size_t) { return open(false); }
  bool start_object(std::size_t) { return open(true); }
  bool end_array() { return close(); }
  bool end_object() { return close(); }
  bool key(string_t& key) {
    const std::size_t place = start_of_string();
    if (const auto [first, is_new] = open_.back().keys.emplace(key, place); !is_new) {
      const Place before = place_of(first->second), here = place_of(place);
      const std::string line = here.line == before.line ? "" : fmt::format("line {}, ", here.line);
      return refuse(fmt::format("the key \"{}\" appears twice ({} and {}column {})", key, to_string(before), line, here.column));
    }
    cost_ += sizeof(Json::Object::value_type) - sizeof(Json) + key.size();
    open_.back().object.emplace_back(std::move(key), nullptr);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& fault) {
    const std::string_view text = fault.what();
    const std::size_t start = text.find("syntax error");
    const std::string place = position > 0 ? fmt::format(" ({})", to_string(place_of(position - 1))) : "";
    return refuse(
        fmt::format("not valid JSON{}: {}", place, text.substr(start != std::string_view::npos ? start : text.find("] ") + 2)));
  }

  Json take() { return std::move(root_); }
  const std::string& fault() const { return fault_; }

 private:
  static constexpr std::size_t max_depth = 200;
  struct Level {
    bool is_object;
    Json::Array array;
    Json::Object object;
    std::unordered_map<std::string, std::size_t> keys;  // and where they stand
  };
  struct Place {
    std::ptrdiff_t line;
    std::size_t column;
  };

  Place place_of(std::size_t at) const {
    const std::string_view before = text_.substr(0, at);
    const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    return {std::count(before.begin(), before.end(), '\n') + 1, before.size() - line_start + 1};
  }
  static std::string to_string(Place place) { return fmt::format("line {}, column {}", place.line, place.column); }
  // Where the string that was read last begins.
  std::size_t start_of_string() const {
    std::size_t at = static_cast<std::size_t>(reached_ - text_.data()) - 1;
    const auto is_escaped = [&] { return (at - 1 - text_.find_last_not_of('\\', at - 1)) % 2 == 1; };
    do at = text_.rfind('"', at - 1);
    while (is_escaped());
    return at;
  }
  bool refuse(std::string why) {
    fault_ = std::move(why);
    return false;
  }
  bool add(Json value) {
    cost_ += sizeof(Json) + (value.is_string() ? value.string().size() : 0);
    if (cost_ > most_bytes_) return refuse("its values would take far more memory than the text does");
    if (take_ != nullptr && open_.empty()) return refuse("an object is expected");
    if (take_ != nullptr && open_.size() == 1) {
      (*take_)(open_.back().object.back().first, value);
      open_.back().object.clear();
      cost_ = 0;
      return true;
    }
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().object.back().second = std::move(value);
    } else {
      open_.back().array.push_back(std::move(value));
    }
    return true;
  }
  bool open(bool is_object) {
    if (take_ != nullptr && open_.empty() && !is_object) return refuse("an object is expected");
    if (open_.size() == max_depth) return refuse(fmt::format("more than {} values inside one another", max_depth));
    open_.push_back({is_object, {}, {}, {}});
    return true;
  }
  bool close() {
    Level level = std::move(open_.back());
    open_.pop_back();
    if (take_ != nullptr && open_.empty()) return true;
    return level.is_object ? add(std::move(level.object)) : add(std::move(level.array));
  }

  std::string_view text_;
  const char* reached_;
  std::size_t most_bytes_, cost_ = 0;  // of values that are kept
  const Take* take_;
  Json root_;
  std::vector<Level> open_;
  std::string fault_;
};

/// Tells how far the parser came: its events do not say it.
class Cursor {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char*& reached) : at_(at), reached_(&reached) {}
  reference operator*() const { return *at_; }
  Cursor& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  Cursor operator++(int) {
    const Cursor before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

}  // namespace

bool Json::boolean() const {
  if (!is_bool()) wrong_type("true or false", *this);
  return std::get<bool>(value_);
}

std::int64_t Json::integer() const {
  if (!is_int()) wrong_type("an integer of 64 bits", *this);
  return std::get<std::int64_t>(value_);
}

double Json::number() const {
  if (is_int()) return static_cast<double>(std::get<std::int64_t>(value_));
  if (!is_number()) wrong_type("a number", *this);
  return is_long_integer() ? std::get<LongInteger>(value_).near : std::get<double>(value_);
}

const std::string& Json::string() const {
  if (!is_string()) wrong_type("a string", *this);
  return std::get<std::string>(value_);
}

const Json::Array& Json::array() const {
  if (!is_array()) wrong_type("an array", *this);
  return std::get<Array>(value_);
}

const Json::Object& Json::object() const {
  if (!is_object()) wrong_type("an object", *this);
  return std::get<Object>(value_);
}

const Json* Json::find(std::string_view key) const {
  const Object& members = object();
  const auto found = std::find_if(members.begin(), members.end(), [&](const auto& member) { return member.first == key; });
  return found == members.end() ? nullptr : &found->second;
}

const Json& Json::at(std::string_view key) const {
  const Json* found = find(key);
  if (found == nullptr) throw UserError(fmt::format("JSON: the key \"{}\" is missing", key), "write the file again");
  return *found;
}

Json& Json::set(std::string key, Json value) {
  if (is_null()) value_ = Object{};
  ensure(is_object(), "only an object has members");
  Object& members = std::get<Object>(value_);
  const auto found = std::find_if(members.begin(), members.end(), [&](const auto& member) { return member.first == key; });
  if (found != members.end()) {
    found->second = std::move(value);
  } else {
    members.emplace_back(std::move(key), std::move(value));
  }
  return *this;
}

std::string Json::dump(int indent) const { return to_library(*this).dump(indent, ' ', false, Library::error_handler_t::replace); }

namespace {

// The most memory that a text's values may take, for each character. A text of the smallest values takes as much; vocabularies
// take half of it.
constexpr std::size_t bytes_a_character = 16, least_bytes = std::size_t{16} << 20;

void read(std::string_view text, std::string_view what, Builder& builder) {
  const char* const first = text.data();
  const Cursor begin(first, builder.reached()), end(first + text.size(), builder.reached());
  if (Library::sax_parse(begin, end, &builder)) return;
  throw UserError(fmt::format("{}: {}", what, builder.fault()), "mend the file or write it again");
}

}  // namespace

Json Json::parse(std::string_view text, std::string_view what) {
  Builder builder(text, std::max(least_bytes, bytes_a_character * text.size()));
  read(text, what, builder);
  return builder.take();
}

void Json::for_each_member(std::string_view text, std::string_view what,
                           const std::function<void(const std::string&, const Json&)>& take) {
  Builder builder(text, least_bytes, &take);
  read(text, what, builder);
}

}  // namespace lockstep
