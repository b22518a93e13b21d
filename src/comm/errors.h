#pragma once

#include "base/error.h"

namespace lockstep::comm {

/// The run ends because of another rank, or because the ranks do not agree; `what()` is the same report on every rank.
class RunAborted : public SystemError {
 public:
  using SystemError::SystemError;
};

}  // namespace lockstep::comm
