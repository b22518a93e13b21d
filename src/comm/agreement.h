#pragma once

// Checks that all ranks have the same texts, and errors that all ranks throw together.

#include <exception>
#include <functional>
#include <string>

#include "comm/communicator.h"

namespace lockstep::comm {

/// Throws UserError on every rank whose text differs from rank 0's. The error names the first line that differs and both ranks'
/// version of it. `what`: what the texts are, for people ("settings"). Collective.
void demand_agreement(Communicator& world, const std::string& what, const std::string& text);

/// Runs `body`, which is not collective, on every rank, and returns when all have done so. Where it throws on some, the error of
/// the first of them is thrown on all, of the same kind everywhere. Its text begins with that rank's number, unless that is 0.
/// Collective.
void together(Communicator& ranks, const std::function<void()>& body);

/// Work of this rank between two meetings of its group. What fails is kept until the next meeting, so that no rank waits for one
/// that has left; until then no further work is done.
class Attempts {
 public:
  /// Runs `body`, unless one before it failed.
  void run(const std::function<void()>& body);
  /// Throws on every rank what failed on one, as together() does. Collective.
  void meet(Communicator& ranks) const;
  /// Throws what failed on this rank.
  void rethrow() const;

 private:
  std::exception_ptr failure_;
};

}  // namespace lockstep::comm
