#pragma once

namespace lockstep {

/// Work that a device keeps, to do it again and again (ops::Ops::repeat). Who repeats the work owns this.
class KeptWork {
 public:
  virtual ~KeptWork() = default;
};

}  // namespace lockstep
