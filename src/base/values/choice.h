#pragma once

// How values are spelt: choices by words, other values as texts of a form. Tables of settings and of plan fields read and print
// with these, and tell the words as a rule. So no other code compares text.

#include <array>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace lockstep {

template <class T>
struct Named {
  std::string_view word;
  T value;
};

/// A choice specialises it. `all` has the choice's words, in the order in which a rule tells them.
template <class T>
struct Choice;
template <class T>
concept IsChoice = requires { Choice<T>::all; };

template <IsChoice T>
constexpr std::string_view word_of(const T& value) {
  for (const Named<T>& one : Choice<T>::all) {
    if (one.value == value) return one.word;
  }
  throw BrokenRule("every value of a choice has a word");
}

/// The value that a word stands for; nothing for another text.
template <IsChoice T>
constexpr std::optional<T> choice_from(std::string_view word) {
  for (const Named<T>& one : Choice<T>::all) {
    if (one.word == word) return one.value;
  }
  return std::nullopt;
}

template <IsChoice T>
std::vector<std::string_view> words_of() {
  std::vector<std::string_view> words;
  for (const Named<T>& one : Choice<T>::all) words.push_back(one.word);
  return words;
}

/// A type whose values are texts of a form specialises it. `read()` returns nothing for a text of another form; `print()` is its
/// inverse. An error about a text that cannot be read tells `rule` and `remedy`.
template <class T>
struct Form;
template <class T>
concept HasForm = requires(std::string_view text) {
  { Form<T>::read(text) } -> std::same_as<std::optional<T>>;
};

}  // namespace lockstep
