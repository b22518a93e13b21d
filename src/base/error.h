#pragma once

// Errors. Three families and no error codes:
//   UserError    what the user can mend (a key, a file, a layout): value, rule and remedy; exit code 2.
//   SystemError  what the machine refused (I/O, a library): what and where; exit code 1.
//   BrokenRule   an invariant of ours does not hold: a bug; exit code 70.

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// One thing that is wrong with the input: the value and the rule it breaks, and what to do about it.
struct Problem {
  std::string message;
  std::string remedy;
};

/// Bad input. Carries every problem found, so that the user mends them in one go.
class UserError : public std::runtime_error {
 public:
  explicit UserError(std::string message, std::string remedy = "");
  /// `problems` must not be empty.
  explicit UserError(std::vector<Problem> problems);
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

/// The machine or a library refused; `what()` names the call and the object.
class SystemError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A broken invariant of the program itself.
class BrokenRule : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws BrokenRule with the caller's place when `condition` does not hold.
void ensure(bool condition, std::string_view rule, std::source_location where = std::source_location::current());

/// The name in `known` with the least edit distance to `name`; empty when nothing is near (distance > 1/2 length).
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

}  // namespace lockstep
