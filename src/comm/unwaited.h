#pragma once

#include <exception>

#include "comm/errors.h"

namespace lockstep::comm {

/// In the destructor of a pending operation that is still `open`: nobody waited for it, so it ends here, as others do. An error
/// that is on its way goes first, and one that ends the run is told by every later operation.
template <class Pending>
void end_unwaited(Pending& pending, bool open) {
  if (!open || std::uncaught_exceptions() > 0) return;
  try {
    pending.wait();
  } catch (const RunAborted&) {
    return;
  }
}

}  // namespace lockstep::comm
